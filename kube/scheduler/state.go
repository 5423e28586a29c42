// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

const stateKey fwk.StateKey = Name

// cycleState is what the plugin keeps in a CycleState. Clones, in which the
// framework tries out what preemption would do, share the attempt and have a
// simulation of their own.
type cycleState struct {
	*attempt
	// extended is set for pods whose extended resources devices may serve.
	extended *extended
	simulation
}

// newState begins an attempt for a pod with these claims; of is nil where it has nothing to do
// with extended resources.
func newState(question string, purses purses, claims []*podclaim.Claim, of *special.Case) *cycleState {
	a := &attempt{common: &common{question: question, purses: purses}, claims: claims, found: map[string]finding{}}
	return &cycleState{attempt: a, extended: newExtended(of, a)}
}

// Clone implements fwk.StateData.
func (s *cycleState) Clone() fwk.StateData {
	return &cycleState{attempt: s.attempt, extended: s.extended, simulation: s.clone()}
}

// attempt is one attempt to schedule a pod, on nodes where its claims are the same.
type attempt struct {
	*common
	claims []*podclaim.Claim
	// special is the claim for extended resources where this is a way with one.
	special *podclaim.Claim
	// asks is the pod with what its allocated claims take of a node in its
	// status; stale is set where an earlier attempt left something there.
	asks  *v1.Pod
	stale bool
	// allocated is what these claims have.
	allocated []claim.Allocated
	// problem is nil where nothing has to be allocated; wanted are the claims
	// it solves, in its order.
	problem  *alloc.Problem
	wanted   []*podclaim.Claim
	snapshot *inventory.Snapshot
	// gang is set where the pod has to leave devices to others of its group.
	gang *gang
	// avoid are devices that failed the claims before.
	avoid []inventory.Hold
	// bindable is set when PreBind succeeded: the pod may be bound then, even
	// if nobody can tell.
	bindable bool
	// statuses are what the devices take of the node that was chosen; stated is
	// set before they are written.
	statuses []v1.NodeAllocatableResourceClaimStatus
	stated   bool

	// deviceless is the outcome for nodes that reach no device.
	deviceless func() (alloc.Outcome, error)

	mutex sync.Mutex
	// found has the devices for each node that passed Filter.
	found map[string]finding
}

// common is what an attempt has in common with those for other nodes: they are of one pod,
// and tried at once.
type common struct {
	// question is what the pod asked for when the attempt began.
	question string
	// purses are what the attempt may spend on searching.
	purses purses

	// holders are the claims that hold devices, nil where nobody is to be told.
	holders func() map[inventory.DeviceID][]inventory.Holder
	// evicting is the node where pods are being evicted for the pod.
	evicting func() string
	// tenures say whose devices are not about to become free.
	tenures func() (tenures, error)

	telling sync.Mutex
	// refused are the nodes without devices for the pod.
	refused map[string]*refused
	// awaits is set where devices that will do are about to become free.
	awaits bool
}

// finding is where the devices on a node come from.
type finding struct {
	result *alloc.Result
	// again is set where devices had to be taken that failed before.
	again bool
	// yields is set where the devices were found together with those of pods
	// that are nominated to the node.
	yields bool
	// statuses are what the devices of the pod take of the node.
	statuses []v1.NodeAllocatableResourceClaimStatus
}

// record keeps what Filter found for a node.
func (a *attempt) record(node string, f finding) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.found[node] = f
}

// on returns what Filter found for a node.
func (a *attempt) on(node string) (finding, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	f, ok := a.found[node]
	return f, ok
}

// stateOf returns the state of the attempt, nil if the pod does not concern the
// plugin.
func stateOf(cs fwk.CycleState) (*cycleState, error) {
	data, err := cs.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, ok := data.(*cycleState)
	if !ok {
		return nil, fmt.Errorf("state of %s is a %T", Name, data)
	}
	return s, nil
}

// groupState is what the plugin keeps in the state of a PodGroup's scheduling
// cycle. It needs no lock: it is only used in the synchronous phases.
type groupState struct {
	// pending are the claims that pods of the group allocated in this cycle,
	// by the UIDs of the claim and of the pods.
	pending map[types.UID]sets.Set[types.UID]
	// funds are what all its attempts may spend.
	funds allFunds
	// attempts by pod, as they were in PreFilter.
	attempts map[types.NamespacedName]*cycleState
	// short says that devices do not suffice for the group, empty where they may.
	short string
}

// Clone implements fwk.StateData.
func (g *groupState) Clone() fwk.StateData { return g }

// groupStateOf returns the state of the group's cycle, nil if the pod is not
// being scheduled as part of a group, or is past that.
func groupStateOf(cs fwk.CycleState) (*groupState, error) {
	cycle := cs.GetPodGroupSchedulingCycle()
	if cycle == nil {
		return nil, nil
	}
	g, err := readGroupState(cycle)
	if err == nil && g == nil {
		g = &groupState{funds: newAllFunds(), pending: map[types.UID]sets.Set[types.UID]{}, attempts: map[types.NamespacedName]*cycleState{}}
		cycle.Write(stateKey, g)
	}
	return g, err
}

// readGroupState returns nil where no pod of the group concerned the plugin.
func readGroupState(cycle fwk.PodGroupCycleState) (*groupState, error) {
	data, err := cycle.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g, ok := data.(*groupState)
	if !ok {
		return nil, fmt.Errorf("state of %s for pod groups is a %T", Name, data)
	}
	return g, nil
}
