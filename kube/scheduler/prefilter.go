// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// PreFilter looks up the claims of the pod and prepares the search for devices:
// it compiles the claims that have to be allocated and takes a snapshot of what
// exists and what is taken.
func (pl *Plugin) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	logger := klog.FromContext(ctx)
	pl.room.settleInFlight(ctx)
	pl.rules.Activate()
	pl.strays.Activate()
	if !pl.concerns(pod) {
		return nil, pl.unconcerned(pod)
	}
	pl.ledger.Retries.Started(pod.UID)
	question := pl.hints.question(pod)
	only, paused := pl.paused(logger, pod, question)
	if paused != nil {
		return nil, paused
	}
	claims, err := pl.lookup.claimsOf(pod)
	if err != nil {
		return nil, hopeless(logger, err.Error())
	}
	if status := pl.awaitChores(logger, pod, claims); !status.IsSuccess() {
		return nil, status
	}
	special, err := pl.specialClaims.CaseOf(pod)
	if err != nil {
		return nil, failed(logger, err)
	}
	if len(claims) == 0 && special == nil {
		return nil, pl.unconcerned(pod)
	}
	if err := pl.lookup.setConsumers(pod, claims); err != nil {
		return nil, hopeless(logger, err.Error())
	}
	group, err := groupStateOf(cs)
	if err != nil {
		return nil, failed(logger, err)
	}
	purses := newPurses(time.Now, fundsOf(group), len(nodes), pl.ledger.Pauses.Strained(pod.Namespace))
	s := newState(question, purses, claims, special)
	cs.Write(stateKey, s)
	if group != nil {
		group.attempts[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = &cycleState{attempt: s.attempt, extended: s.extended}
	}
	if status := pl.examineAll(ctx, s, pod, group); !status.IsSuccess() {
		return nil, status
	}
	if status := pl.room.accountPod(ctx, s.attempt, pod, group); !status.IsSuccess() {
		return nil, status
	}
	if status := pl.prepare(ctx, s); !status.IsSuccess() {
		return nil, status
	}
	if err := pl.planGang(ctx, s, pod, group, nodes); err != nil {
		return nil, failed(logger, fmt.Errorf("plan for the group of the pod: %w", err))
	}
	return only, nil
}

// examineAll finds out what the claims need, and whether the pod may use what is allocated
// to it already.
func (pl *Plugin) examineAll(ctx context.Context, s *cycleState, pod *v1.Pod, group *groupState) *fwk.Status {
	logger := klog.FromContext(ctx)
	for _, pc := range s.claims {
		if status := pl.examine(logger, s.attempt, pc, pod, group); !status.IsSuccess() {
			return status
		}
	}
	if status := pl.examineTaints(ctx, s.attempt, s.extended); !status.IsSuccess() {
		return status
	}
	if reason := s.unusable(); reason != "" {
		return hopeless(logger, reason)
	}
	return nil
}

// paused refuses a pod that has a pause. Where pods were evicted for it on a node it
// is tried there, and only there: refused, it would lose the place.
func (pl *Plugin) paused(logger klog.Logger, pod *v1.Pod, question string) (only *fwk.PreFilterResult, status *fwk.Status) {
	why := pl.ledger.Pauses.Of(pod.UID, question)
	switch {
	case why == "":
		return nil, nil
	case pod.Status.NominatedNodeName != "":
		return &fwk.PreFilterResult{NodeNames: sets.New(pod.Status.NominatedNodeName)}, nil
	}
	return nil, hopeless(logger, why)
}

// unconcerned skips a pod, unless devices of pods on the way to their nodes take
// resources that only this plugin knows of.
func (pl *Plugin) unconcerned(pod *v1.Pod) *fwk.Status {
	if pod.Spec.NodeName == "" && len(pl.ledger.InFlight.Nodes()) > 0 {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

// examine looks at the state of one claim and sorts it in: allocated, found by
// another pod of the group, or wanted.
func (pl *Plugin) examine(logger klog.Logger, a *attempt, pc *podclaim.Claim, pod *v1.Pod, group *groupState) *fwk.Status {
	claim := pc.Claim
	allocated := claim.Status.Allocation != nil
	pending := pl.manager.ResourceClaims().GetPendingAllocation(claim.UID)
	switch {
	case allocated && len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize && !pl.lookup.reservedFor(pod, claim):
		return hopeless(logger, fmt.Sprintf("resourceclaim in use: claim %s has %d consumers, no more are possible", podclaim.NameOf(claim), len(claim.Status.ReservedFor)))
	case allocated:
		pc.Broken = pl.bindings.BrokenBinding(claim, pl.bindings.Clock.Now())
	case pending != nil && group != nil && group.pending[claim.UID] != nil:
		pc.Pending = pending
	case pending != nil || pl.ledger.Exchanges.Of(claim.UID):
		return hopeless(logger, fmt.Sprintf("resource claim %s is in the process of being allocated", podclaim.NameOf(claim)))
	default:
		a.wanted = append(a.wanted, pc)
		for _, id := range pl.ledger.Failures.Of(claim.UID) {
			a.avoid = append(a.avoid, inventory.Hold{Device: id})
		}
		return nil
	}
	if selector := pc.Allocation().NodeSelector; selector != nil {
		nodes, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return failed(logger, fmt.Errorf("claim %s: node selector of its allocation: %w", podclaim.NameOf(claim), err))
		}
		pc.Nodes = nodes
	}
	return nil
}

// prepare compiles the claims that have to be allocated.
func (pl *Plugin) prepare(ctx context.Context, s *cycleState) *fwk.Status {
	a := s.attempt
	if len(a.wanted) == 0 && s.extended == nil {
		return nil
	}
	logger := klog.FromContext(ctx)
	err := pl.compileAttempt(a)
	if err != nil {
		return refuseInput(logger, err)
	}
	if a.snapshot == nil {
		if a.snapshot, err = pl.feed.Snapshot(ctx); err != nil {
			return failed(logger, err)
		}
	}
	a.holders = sync.OnceValue(func() map[inventory.DeviceID][]inventory.Holder { return pl.lookup.holders(logger) })
	a.evicting = sync.OnceValue(func() string { return pl.keepers.evictingNode(a.asks) })
	a.tenures = sync.OnceValues(func() (tenures, error) { return pl.keepers.tenures(a.asks, a.claims) })
	return nil
}

// refuseInput refuses claims that cannot be allocated as they are. The pod waits
// for a change of the class or claim.
func refuseInput(logger klog.Logger, err error) *fwk.Status {
	if input := (*alloc.InputError)(nil); errors.As(err, &input) {
		return hopeless(logger, explain.Input(input))
	}
	return failed(logger, err)
}

// PreFilterExtensions returns the plugin: it takes part in preemption.
func (pl *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return pl }

// awaitChores refuses a pod with a claim about which something is being done.
func (pl *Plugin) awaitChores(logger klog.Logger, pod *v1.Pod, claims []*podclaim.Claim) *fwk.Status {
	for _, pc := range claims {
		if pl.chores.Keep(pc.Key(), pod) {
			return hopeless(logger, fmt.Sprintf("resource claim %s is in the process of being deallocated", podclaim.NameOf(pc.Claim)))
		}
	}
	if name, unsettled := pl.ledger.Specials.IsUnsettled(pod.UID); unsettled {
		if err := pl.specialClaims.BeginRemoval(pod, []string{name}); err != nil {
			return failed(logger, err)
		}
	}
	if pl.chores.Keep(podclaim.PlaceholderUID(pod.UID), pod) {
		return hopeless(logger, "a claim that was made for extended resources of the pod is in the process of being removed")
	}
	return nil
}
