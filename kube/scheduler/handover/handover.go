// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// move is an allocated device of a fabric that is on the node now, where the
// node's driver publishes it by another name.
type move struct {
	offer inventory.DeviceID
	// target is what it is called now, nil where that is to be found out.
	target *inventory.DeviceID
}

// movesOf returns the devices of a claim that have to be exchanged for what
// they are called on the node. Whoever attached them says so in the data of the
// device's status; what others keep there is none of it, nor is what is said of a
// device that no fabric offers.
func movesOf(c *resourceapi.ResourceClaim) ([]move, error) {
	var found []move
	for _, result := range claim.Results(c) {
		at := claim.StatusIndex(c, result)
		if !strings.HasPrefix(result.Pool, inventory.FabricPool("")) || len(result.BindingConditions) == 0 || at < 0 || c.Status.Devices[at].Data == nil {
			continue
		}
		var kind metav1.TypeMeta
		raw := c.Status.Devices[at].Data.Raw
		if json.Unmarshal(raw, &kind) != nil || kind.Kind != v1alpha1.ArrivalKind || kind.GroupVersionKind().Group != v1alpha1.SchemeGroupVersion.Group {
			continue
		}
		field := fmt.Sprintf("claim %s: status.devices[%d].data", podclaim.NameOf(c), at)
		if kind.APIVersion != v1alpha1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("%s: apiVersion %s is not known, want %s", field, kind.APIVersion, v1alpha1.SchemeGroupVersion)
		}
		var data v1alpha1.Arrival
		if err := json.Unmarshal(raw, &data); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		m := move{offer: inventory.IDOf(result)}
		if t := data.Target; t != nil {
			m.target = &inventory.DeviceID{Driver: t.Driver, Pool: t.Pool, Device: t.Device}
		}
		found = append(found, m)
	}
	return found, nil
}

// genuine says why a device cannot have arrived as what is said: only a fabric's
// controller publishes what a fabric offers, and a device that arrives is of the driver
// that it was offered for. What has left its shelf by now is not published.
func (m *move) genuine(snapshot *inventory.Snapshot) error {
	if pool, _ := snapshot.Pool(m.offer.PoolID()); pool != nil {
		if d := pool.Device(m.offer.Device); d != nil && !inventory.FromFabric(d.Slice) {
			return fmt.Errorf("slice %s, which publishes %s, is not a Fabric's", d.Slice.Name, m.offer)
		}
	}
	if m.target != nil && m.target.Driver != m.offer.Driver {
		return fmt.Errorf("it is a device of driver %s and was offered for %s", m.target.Driver, m.offer.Driver)
	}
	return nil
}

// locate finds the targets that are not named: a device that is kept for the claim
// on the node. wait says what has to happen first, empty where nothing has to.
func locate(claim *resourceapi.ResourceClaim, moves []move, view *inventory.View) (wait string) {
	named := map[inventory.DeviceID]bool{}
	for _, a := range moves {
		named[a.offer] = true
		if a.target != nil {
			named[*a.target] = true
		}
	}
	published := map[inventory.DeviceID]*inventory.Device{}
	var kept []inventory.DeviceID
	for i := range view.Pools {
		for _, d := range view.Pools[i].Devices {
			if view.Pools[i].Pool.Problem == nil {
				published[d.ID] = d
			}
			if d.KeptFor(claim.UID) && !named[d.ID] {
				kept = append(kept, d.ID)
			}
		}
	}
	for i := range moves {
		a := &moves[i]
		for k := 0; a.target == nil && k < len(kept); k++ {
			if kept[k].Driver == a.offer.Driver {
				a.target = &kept[k]
				kept = append(kept[:k:k], kept[k+1:]...)
			}
		}
		switch {
		case a.target == nil:
			return fmt.Sprintf("node %s does not show %s", view.Node.Name, a.offer)
		case published[*a.target] == nil:
			return fmt.Sprintf("node %s does not show %s", view.Node.Name, a.target)
		case mayBeAnothers(published[*a.target], claim.UID):
			return fmt.Sprintf("a device of another claim arrives on node %s, and %s may be it", view.Node.Name, a.target)
		}
	}
	return ""
}

// mayBeAnothers tells whether the device is one of those among which another claim's
// arrives, and is not known to be this claim's.
func mayBeAnothers(d *inventory.Device, claim types.UID) bool {
	return !d.KeptFor(claim) && slices.ContainsFunc(d.Taints, func(t inventory.Taint) bool {
		return t.Key == inventory.ArrivingTaint && t.Value != string(claim)
	})
}

// exchanged works out the allocation of a claim with the targets instead of what
// it was allocated. All else stays as it is: there is nothing to choose.
func (h *Waiter) exchanged(pc *podclaim.Claim, moves []move, view *inventory.View) (*resourceapi.AllocationResult, error) {
	free := *pc
	free.Claim = pc.Claim.DeepCopy()
	free.Claim.Status.Allocation = nil
	options := h.Compiler.Options
	options.Among = map[inventory.DeviceID]types.UID{}
	for _, id := range podclaim.DevicesIn(pc.Claim.Status.Allocation) {
		options.Among[id] = pc.Claim.UID
	}
	for _, a := range moves {
		delete(options.Among, a.offer)
		options.Among[*a.target] = ""
	}
	problem, err := h.Compiler.CompileWith(options, []*podclaim.Claim{&free})
	if err != nil {
		return nil, err
	}
	held := inventory.HoldsOf(pc.Claim)
	outcome, err := problem.Allocate(view.WhatIf(held, nil))
	if err != nil {
		return nil, err
	}
	if outcome.Result == nil {
		return nil, fmt.Errorf("the claim cannot have it: %s", reasonOf(&free, outcome, view))
	}
	return &outcome.Result.Claims[0], nil
}

// reasonOf says in words why there is no result.
func reasonOf(pc *podclaim.Claim, outcome alloc.Outcome, view *inventory.View) string {
	if outcome.GaveUp != nil {
		return explain.GaveUp(outcome.GaveUp)
	}
	refusal := *outcome.Refusal
	refusal.Pools = nil // the device is there: no broken pool keeps it away
	return explain.CauseOf(&refusal, explain.Options{
		Visible: func(of string) bool { return of == pc.Claim.Namespace },
		Claims:  podclaim.SpecsOf([]*podclaim.Claim{pc}),
		View:    view,
	}).String()
}

// handOver exchanges the devices of claims that have arrived on the node for what
// they are called there. The claims' devices are ready. again says that the claims
// have to be looked at once more: their allocation has changed, or will.
func (h *Waiter) handOver(ctx context.Context, claims []*podclaim.Claim, pod *v1.Pod, nodeName string, started time.Time) (again bool, err error) {
	for _, pc := range claims {
		moves, err := movesOf(pc.Claim)
		if err != nil {
			return false, err
		}
		if len(moves) == 0 {
			continue
		}
		again = true
		uid := pc.Claim.UID
		if !h.Exchanges.Begin(pc.Claim) {
			continue // another pod that shares the claim is at it
		}
		err = h.handOverClaim(ctx, pc, moves, pod, nodeName, started)
		h.Exchanges.End(uid)
		h.Watch.Wake(uid) // also this pod itself
		if err != nil {
			return false, err
		}
	}
	return again, nil
}

func (h *Waiter) handOverClaim(ctx context.Context, pc *podclaim.Claim, moves []move, pod *v1.Pod, nodeName string, started time.Time) error {
	logger := klog.FromContext(ctx)
	switch user, err := h.runningUser(pc.Claim, pod); {
	case err != nil:
		return err
	case user != "":
		return fmt.Errorf("claim %s: pod %s runs with its devices, which are therefore not exchanged for those that have arrived", podclaim.NameOf(pc.Claim), user)
	}
	next, wait, err := h.promise(ctx, pc, moves, nodeName)
	switch {
	case err != nil:
		pc.Broken = unfit(pc.Claim, moves, err)
		return pc.Broken
	case wait != "" && !h.Clock.Now().Before(h.Bindings.BindingDeadline(pc.Claim, started)):
		pc.Broken = unfit(pc.Claim, moves, errors.New(wait))
		return pc.Broken
	case wait != "":
		logger.V(4).Info("waiting to hand over a device that has arrived", "resourceclaim", klog.KObj(pc.Claim), "reason", wait)
		return ledger.Sleep(ctx, h.Clock, nil, h.Clock.Now().Add(ArrivalPeriod))
	}
	before := pc.Claim.Status.Allocation
	if err := h.exchange(ctx, pc, next, pod); err != nil {
		return err
	}
	h.Exchanges.Done(pc.Claim.UID, ledger.Exchange{From: before, To: next, Version: pc.Claim.ResourceVersion})
	h.tellExchange(logger, pod, moves)
	return nil
}

// ArrivalPeriod is the time between two looks for a device of which the claim says
// that it is there. The claim's change may be seen before that of the node's
// slices, and of those the framework tells plugins nothing.
const ArrivalPeriod = 20 * time.Millisecond

// promise works out what the claim gets and keeps it from everybody else. wait says
// what has to happen first.
func (h *Waiter) promise(ctx context.Context, pc *podclaim.Claim, moves []move, nodeName string) (next *resourceapi.AllocationResult, wait string, err error) {
	node, err := h.Nodes.Get(nodeName)
	if err != nil {
		return nil, "", err
	}
	h.Exchanges.Turn.Lock()
	defer h.Exchanges.Turn.Unlock()
	snapshot, err := h.Feed.Snapshot(ctx)
	if err != nil {
		return nil, "", err
	}
	for i := range moves {
		if err := moves[i].genuine(snapshot); err != nil {
			return nil, "", err
		}
	}
	view := snapshot.View(node)
	if wait = locate(pc.Claim, moves, view); wait != "" {
		return nil, wait, nil
	}
	if next, err = h.exchanged(pc, moves, view); err != nil {
		return nil, "", err
	}
	h.Exchanges.Promise(pc.Claim.UID, next)
	return next, "", nil
}

// exchange takes the allocation of a claim back and writes the next one. It takes
// two writes, for an allocation cannot be changed. A crash in between leaves a
// claim without allocation: the device stays kept for it by what its controller
// published, and the pod's next attempt finds it.
func (h *Waiter) exchange(ctx context.Context, pc *podclaim.Claim, next *resourceapi.AllocationResult, pod *v1.Pod) error {
	given, err := h.Writer.DeallocateWhile(ctx, pc, func(now *resourceapi.ResourceClaim) error { return h.unlike(now, pc, pod) })
	if err != nil {
		return err
	}
	pc.Pending, pc.Others = next, given.Status.ReservedFor
	h.Manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(pc.Key(), true)
	if err := h.Manager.ResourceClaims().SignalClaimPendingAllocation(pc.Key(), podclaim.AllocatedCopy(pc)); err != nil {
		return fmt.Errorf("internal error: signal the allocation of claim %s: %w", podclaim.NameOf(pc.Claim), err)
	}
	return h.Writer.BindClaim(ctx, pc)
}

// runningUser returns a pod that uses the claim on a node, empty if none does.
func (h *Waiter) runningUser(c *resourceapi.ResourceClaim, pod *v1.Pod) (string, error) {
	pods, err := h.Users.Of(c)
	if err != nil {
		return "", err
	}
	for _, name := range pods {
		other, err := h.Users.Lister.Pods(name.Namespace).Get(name.Name)
		if err != nil || other.UID == pod.UID || other.Spec.NodeName == "" {
			continue
		}
		if !claim.Ended(other) && resourceclaim.IsReservedForPod(other, c, h.WorkloadClaims) {
			return name.String(), nil
		}
	}
	return "", nil
}

// unfit says that devices arrived that the claim cannot have.
func unfit(claim *resourceapi.ResourceClaim, moves []move, why error) *podclaim.BindingError {
	e := &podclaim.BindingError{Claim: claim}
	for _, m := range moves {
		detail := fmt.Sprintf("device %s has arrived", m.offer)
		if m.target != nil {
			detail += " as " + m.target.String()
		}
		e.Add(m.offer, fmt.Sprintf("%s: %v", detail, why))
	}
	return e
}

func (h *Waiter) tellExchange(logger klog.Logger, pod *v1.Pod, moves []move) {
	for _, m := range moves {
		h.Handle.EventRecorder().WithLogger(logger).Eventf(pod, nil, v1.EventTypeNormal, "DeviceHandedOver", "Scheduling",
			"device %s has arrived as %s, which the claim has now", m.offer, m.target)
	}
}
