// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

const (
	// DrainTaint keeps a device that is to be detached from everybody.
	DrainTaint = "fabric.kerf.dev/drain"

	// labelFabric is on all that the controller makes for a fabric.
	labelFabric = "fabric.kerf.dev/fabric"
	labelGuard  = v1alpha1.GuardLabel
)

// guards knows the DeviceTaintRules that are in place.
type guards struct {
	fabric string
	// seen has the rules of attachments, by name of the rule.
	seen map[string]map[string]*resourceapi.DeviceTaintRule
	// waiting are attachments with a guard that is not acknowledged, until when.
	waiting map[string]time.Time
	policy  fabric.Policy
	now     func() time.Time
}

func newGuards(policy fabric.Policy, now func() time.Time) *guards {
	return &guards{
		fabric: policy.Fabric, policy: policy.WithDefaults(), now: now,
		seen: map[string]map[string]*resourceapi.DeviceTaintRule{}, waiting: map[string]time.Time{},
	}
}

// set takes a rule in, or out where it is gone.
func (g *guards) set(planner *fabric.Planner, rule *resourceapi.DeviceTaintRule, gone bool) {
	attachment := guardedFor(rule)
	if attachment == "" || rule.Labels[labelFabric] != g.fabric {
		return
	}
	if g.seen[attachment] == nil {
		g.seen[attachment] = map[string]*resourceapi.DeviceTaintRule{}
	}
	g.seen[attachment][rule.Name] = rule
	if gone {
		delete(g.seen[attachment], rule.Name)
	}
	if len(g.seen[attachment]) == 0 {
		delete(g.seen, attachment)
		delete(g.waiting, attachment)
	}
	g.observe(planner, attachment)
}

// guardedFor is the name of the attachment that a rule belongs to.
func guardedFor(rule *resourceapi.DeviceTaintRule) string {
	if owner := metav1.GetControllerOf(rule); owner != nil && owner.Kind == "DeviceAttachment" {
		return owner.Name
	}
	return ""
}

// observe tells the planner which guard an attachment has. While one is exchanged
// for another there are rules of both, which is told as none.
func (g *guards) observe(planner *fabric.Planner, attachment string) {
	rules := g.seen[attachment]
	if len(rules) == 0 {
		return
	}
	status, at := g.status(rules)
	delete(g.waiting, attachment)
	if !at.IsZero() {
		g.waiting[attachment] = at
	}
	planner.ObserveGuard(attachment, status)
}

// status puts rules together, and tells when those that are not seen count as seen,
// zero for never.
func (g *guards) status(rules map[string]*resourceapi.DeviceTaintRule) (status fabric.GuardStatus, at time.Time) {
	status.Acknowledged = true
	for _, rule := range rules {
		guard, device := fabric.Guard(rule.Labels[labelGuard]), deviceOf(rule)
		switch {
		case status.Guard == "":
			status.Guard, status.Device = guard, device
		case status.Guard != guard || device != nil:
			return fabric.GuardStatus{Guard: fabric.GuardNone}, time.Time{}
		}
		if seen(rule) {
			continue
		}
		wait := g.patience(guard)
		if due := rule.CreationTimestamp.Add(wait); wait < 0 || g.now().Before(due) {
			status.Acknowledged = false
			if wait >= 0 && at.Before(due) {
				at = due
			}
		}
	}
	return status, at
}

// seen tells whether the scheduler has said that it acts on a rule.
func seen(rule *resourceapi.DeviceTaintRule) bool {
	c := apimeta.FindStatusCondition(rule.Status.Conditions, v1alpha1.RuleSeen)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= rule.Generation
}

// patience is how old a rule must be to count as seen although no scheduler says so;
// negative: it never does. In mode Reallocate kerf-scheduler is there and says so; a
// device that is to be detached does not wait for it for ever.
func (g *guards) patience(guard fabric.Guard) time.Duration {
	switch {
	case g.policy.HandOver != fabric.Reallocate:
		return g.policy.SeenAfter
	case guard == fabric.GuardDrain:
		return g.policy.DrainSeenAfter
	default:
		return -1
	}
}

// acknowledge tells the planner of guards whose time has come.
func (g *guards) acknowledge(planner *fabric.Planner, now time.Time) {
	for attachment, at := range g.waiting {
		if !now.Before(at) {
			g.observe(planner, attachment)
		}
	}
}

// wake is when the next guard is acknowledged, zero for never.
func (g *guards) wake() time.Time {
	var first time.Time
	for _, at := range g.waiting {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

func deviceOf(rule *resourceapi.DeviceTaintRule) *fabric.LocalDevice {
	s := rule.Spec.DeviceSelector
	if s == nil || s.Device == nil {
		return nil
	}
	return &fabric.LocalDevice{Driver: ptr.Deref(s.Driver, ""), Pool: ptr.Deref(s.Pool, ""), Device: *s.Device}
}

// setGuard makes the rules of a guard and then takes away those of the last one,
// so that there is no moment without. The pools are those that the driver has on
// the node.
func (c *carrier) setGuard(ctx context.Context, action *fabric.SetGuard, pools []string) error {
	owner := &v1alpha1.DeviceAttachment{}
	if err := c.live.Get(ctx, client.ObjectKey{Name: action.Attachment.Name}, owner); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, rule := range rulesFor(action, owner, pools) {
		wanted[rule.Name] = true
		if err := c.client.Create(ctx, rule); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	var rules resourceapi.DeviceTaintRuleList
	if err := c.live.List(ctx, &rules, client.MatchingLabels{labelFabric: c.fabric.Name}); err != nil {
		return err
	}
	for i := range rules.Items {
		rule := &rules.Items[i]
		if guardedFor(rule) != owner.Name || wanted[rule.Name] {
			continue
		}
		if err := c.client.Delete(ctx, rule); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// rulesFor are the rules of a guard: one for a device that is known, else one for
// each pool. A driver that has published nothing yet is taken to name its pool
// like the node, as drivers do.
func rulesFor(action *fabric.SetGuard, owner *v1alpha1.DeviceAttachment, pools []string) []*resourceapi.DeviceTaintRule {
	if action.Guard == fabric.GuardNone {
		return nil
	}
	taint := resourceapi.DeviceTaint{Key: DrainTaint, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if claim := action.Attachment.Spec.Claim; claim != nil && action.Guard != fabric.GuardDrain {
		taint.Key, taint.Value = inventory.ClaimTaint, string(claim.UID)
		if action.Device == nil {
			// One of them will be the claim's; the others are nobody's.
			taint.Key = inventory.ArrivingTaint
		}
	}
	var selectors []*resourceapi.DeviceTaintSelector
	if d := action.Device; d != nil {
		selectors = append(selectors, &resourceapi.DeviceTaintSelector{Driver: &d.Driver, Pool: &d.Pool, Device: &d.Device})
	} else {
		if len(pools) == 0 {
			pools = []string{action.Node}
		}
		for _, pool := range pools {
			selectors = append(selectors, &resourceapi.DeviceTaintSelector{Driver: &action.Driver, Pool: ptr.To(pool)})
		}
	}
	var rules []*resourceapi.DeviceTaintRule
	for _, s := range selectors {
		name := owner.Name + "-" + digest(string(action.Guard), taint.Key, *s.Driver, *s.Pool, ptr.Deref(s.Device, ""))
		rules = append(rules, &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{labelFabric: owner.Spec.Fabric, labelGuard: string(action.Guard)},
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(owner, v1alpha1.SchemeGroupVersion.WithKind("DeviceAttachment")),
				},
			},
			Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: s, Taint: taint},
		})
	}
	return rules
}

func digest(parts ...string) string {
	h := fnv.New64a()
	for _, part := range parts {
		// Writing to a hash does not fail.
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
