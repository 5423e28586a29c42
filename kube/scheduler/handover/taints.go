// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Taints tells which devices taints keep from a pod, and keeps rules from being
// acknowledged while a device is reserved against them.
type Taints struct {
	// Plugin is the name of who reserves.
	Plugin string
	Handle fwk.Handle
	Feed   *informer.Feed
	Held   *ledger.Reservations
	// Rules is nil where there are no DeviceTaintRules.
	Rules *Rules
}

// Hold notes what the pod has reserved, unless a DeviceTaintRule has come that
// the search has not seen.
func (t *Taints) Hold(of []*podclaim.Claim, pod *v1.Pod) error {
	var claims []*podclaim.Claim // as they are now: PreBind changes those of the attempt
	for _, pc := range of {
		if pc.Pending != nil {
			claims = append(claims, &podclaim.Claim{Claim: pc.Claim, Special: pc.Special, Pending: pc.Pending})
		}
	}
	yield := func() { t.leavePermit(pod, claims) }
	chosen := map[ledger.Holder]ledger.Reserved{}
	for _, pc := range claims {
		chosen[ledger.Holder{Claim: pc.Key(), Pod: pod.UID}] = ledger.Reserved{Devices: podclaim.DevicesIn(pc.Pending), Yield: yield}
	}
	return t.Held.HoldUnless(func() error { return t.Since(of) }, chosen)
}

// TaintedError says that a device which a claim was to get has been tainted.
type TaintedError struct {
	device      inventory.DeviceID
	claim, rule string
}

func (e *TaintedError) Error() string {
	return fmt.Sprintf("device %s, which claim %s was to get, has been tainted by DeviceTaintRule %s", e.device, e.claim, e.rule)
}

// leavePermit has the pod give its devices back if it waits at Permit and a rule keeps
// one of them from it. If it is past that PreBind does.
func (t *Taints) leavePermit(pod *v1.Pod, claims []*podclaim.Claim) {
	waiting := t.Handle.GetWaitingPod(pod.UID)
	if waiting == nil {
		return
	}
	if err := t.Since(claims); err != nil {
		waiting.Reject(t.Plugin, err.Error())
	}
}

// Release ends what Hold has begun: the API knows of it, or it is over.
func (t *Taints) Release(claims []*podclaim.Claim, pod *v1.Pod) {
	for _, pc := range claims {
		t.Held.Release(ledger.Holder{Claim: pc.Key(), Pod: pod.UID})
	}
}

// Since says which of the devices that the claims are to get a DeviceTaintRule
// keeps from them, if any. The search has looked at taints; but it may
// have begun before there was the rule, and what it looks at comes a moment later than
// the rules themselves. It also says which of the claims that have devices the pod may
// not join any more.
func (t *Taints) Since(claims []*podclaim.Claim) error {
	for _, pc := range claims {
		if pc.Claim.Status.Allocation != nil {
			if tainted, err := t.Joinable(pc.Claim, t.Feed.Latest()); tainted != nil || err != nil {
				return either(tainted, err)
			}
			continue
		}
		if pc.Pending == nil || t.Rules == nil {
			continue
		}
		for i := range pc.Pending.Devices.Results {
			if err := t.taintedFor(pc.Claim, &pc.Pending.Devices.Results[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Taints) taintedFor(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) error {
	id := inventory.IDOf(result)
	rules, err := t.Rules.of(id.Driver)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		taint := &rule.Spec.Taint
		if inventory.Selects(rule, id) && inventory.KeepsAway(taint) && !t.meantFor(claim.UID, id, taint) && !alloc.Tolerates(result.Tolerations, taint) {
			return &TaintedError{id, podclaim.NameOf(claim), rule.Name}
		}
	}
	return nil
}

// meantFor tells whether a taint is there for the claim and not against it.
func (t *Taints) meantFor(claim types.UID, id inventory.DeviceID, taint *resourceapi.DeviceTaint) bool {
	switch taint.Key {
	case inventory.ClaimTaint:
		return taint.Value == string(claim)
	case inventory.ArrivingTaint:
		pool, _ := t.Feed.Latest().Pool(id.PoolID())
		device := (*inventory.Device)(nil)
		if pool != nil {
			device = pool.Device(id.Device)
		}
		return device != nil && device.KeptFor(claim)
	}
	return false
}
