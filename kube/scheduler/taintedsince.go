// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
)

// holdDevices notes what the pod has reserved, unless a DeviceTaintRule has come that
// the search has not seen.
func (t *taints) holdDevices(logger klog.Logger, a *attempt, pod *v1.Pod) *fwk.Status {
	var claims []*podClaim // as they are now: PreBind changes those of the attempt
	for _, pc := range a.claims {
		if pc.pending != nil {
			claims = append(claims, &podClaim{claim: pc.claim, special: pc.special, pending: pc.pending})
		}
	}
	yield := func() { t.leavePermit(pod, claims) }
	chosen := map[holder]reserved{}
	for _, pc := range claims {
		chosen[holder{pc.key(), pod.UID}] = reserved{devicesIn(pc.pending), yield}
	}
	return taintedStatus(logger, t.held.holdUnless(func() error { return t.taintedSince(a.claims) }, chosen))
}

// taints tells which devices taints keep from a pod, and keeps rules from being
// acknowledged while a device is reserved against them.
type taints struct {
	handle fwk.Handle
	feed   *informer.Feed
	held   *reservations
	// rules is nil where there are no DeviceTaintRules.
	rules *ruleWatch
}

// taintedError says that a device which a claim was to get has been tainted.
type taintedError struct {
	device      inventory.DeviceID
	claim, rule string
}

func (e *taintedError) Error() string {
	return fmt.Sprintf("device %s, which claim %s was to get, has been tainted by DeviceTaintRule %s", e.device, e.claim, e.rule)
}

// taintedStatus is what becomes of the pod: the change of the device's slice that follows
// from the rule, and that of any other, brings it back.
func taintedStatus(logger klog.Logger, err error) *fwk.Status {
	tainted, join := (*taintedError)(nil), (*joinError)(nil)
	if errors.As(err, &tainted) || errors.As(err, &join) {
		return refuse(logger, fwk.Unschedulable, err.Error())
	}
	return fwk.AsStatus(err)
}

// leavePermit has the pod give its devices back if it waits at Permit and a rule keeps
// one of them from it. If it is past that PreBind does.
func (t *taints) leavePermit(pod *v1.Pod, claims []*podClaim) {
	waiting := t.handle.GetWaitingPod(pod.UID)
	if waiting == nil {
		return
	}
	if err := t.taintedSince(claims); err != nil {
		waiting.Reject(Name, err.Error())
	}
}

// releaseDevices ends what holdDevices has begun: the API knows of it, or it is over.
func (t *taints) releaseDevices(a *attempt, pod *v1.Pod) {
	for _, pc := range a.claims {
		t.held.release(holder{pc.key(), pod.UID})
	}
}

// taintedSince says which of the devices that the claims are to get a DeviceTaintRule
// keeps from them, if any. The search has looked at taints; but it may
// have begun before there was the rule, and what it looks at comes a moment later than
// the rules themselves. It also says which of the claims that have devices the pod may
// not join any more.
func (t *taints) taintedSince(claims []*podClaim) error {
	for _, pc := range claims {
		if pc.claim.Status.Allocation != nil {
			if tainted, err := t.joinable(pc.claim, t.feed.Latest()); tainted != nil || err != nil {
				return either(tainted, err)
			}
			continue
		}
		if pc.pending == nil || t.rules == nil {
			continue
		}
		for i := range pc.pending.Devices.Results {
			if err := t.taintedFor(pc.claim, &pc.pending.Devices.Results[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *taints) taintedFor(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) error {
	id := inventory.IDOf(result)
	rules, err := t.rules.of(id.Driver)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		taint := &rule.Spec.Taint
		if inventory.Selects(rule, id) && inventory.KeepsAway(taint) && !t.meantFor(claim.UID, id, taint) && !alloc.Tolerates(result.Tolerations, taint) {
			return &taintedError{id, nameOf(claim), rule.Name}
		}
	}
	return nil
}

// meantFor tells whether a taint is there for the claim and not against it.
func (t *taints) meantFor(claim types.UID, id inventory.DeviceID, taint *resourceapi.DeviceTaint) bool {
	switch taint.Key {
	case inventory.ClaimTaint:
		return taint.Value == string(claim)
	case inventory.ArrivingTaint:
		pool, _ := t.feed.Latest().Pool(id.PoolID())
		device := (*inventory.Device)(nil)
		if pool != nil {
			device = pool.Device(id.Device)
		}
		return device != nil && device.KeptFor(claim)
	}
	return false
}
