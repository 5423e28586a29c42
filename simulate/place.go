// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Verdict is where a pod can go, or why it cannot.
type Verdict struct {
	Pod    *v1.Pod
	Claims []Claim
	// Placed is the pod on its node, with its status; only [World.Place] sets it.
	Placed *v1.Pod
	// Obstacle is set where no node was looked at.
	Obstacle *Obstacle
	// Nodes has the answer of each node, by name.
	Nodes []NodeVerdict
	// Best is the node of Nodes that is chosen, nil where there is none.
	Best *NodeVerdict
	// Unready are the allocated claims for whose devices the pod waits on the node.
	Unready []Obstacle
	// Failed are devices that will not become ready: their claims are given up.
	Failed []claim.Failure

	pending  []*resourceapi.ResourceClaim
	problem  *alloc.Problem
	strategy alloc.Strategy
	// left is what all nodes together may still take, and leftAgain what all changes
	// may that are tried afterwards.
	left, leftAgain purse
	// ways are what has to be solved, by the extended resources that devices serve.
	ways map[string]*way
	// asks is the pod with what its allocated claims take of a node.
	asks *v1.Pod
	// freed is what the pod's claims have that are allocated anew; outdated is one for
	// extended resources that another takes the place of.
	freed    []inventory.Hold
	outdated *resourceapi.ResourceClaim
}

// Pending are the claims that are not allocated yet; see [NodeVerdict.Wanted] for what
// results and refusals of nodes are about.
func (v *Verdict) Pending() []*resourceapi.ResourceClaim { return v.pending }

// Blocker is what the pod waits for wherever it could go: an obstacle, or devices that it
// has and that are not ready; nil where there is none.
func (v *Verdict) Blocker() *Obstacle {
	if v.Best != nil && len(v.Unready) > 0 {
		return &v.Unready[0]
	}
	return v.Obstacle
}

// NodeVerdict is the answer of one node.
type NodeVerdict struct {
	Node *v1.Node
	// Misfits keep the pod from the node whatever its devices are. Where there
	// are any, the devices were not looked at.
	Misfits []Misfit
	// View is what the node can use, and Outcome what came of it. Without
	// claims to allocate, both are zero.
	View    *inventory.View
	Outcome alloc.Outcome

	pending []*resourceapi.ResourceClaim
	way     *way
	used    float64
}

// Fits reports whether the pod can go to the node.
func (n *NodeVerdict) Fits() bool {
	return len(n.Misfits) == 0 && (n.View == nil || n.Outcome.Result != nil)
}

// cost is that of the devices, zero without any.
func (n *NodeVerdict) cost() alloc.Cost {
	if n.Outcome.Result == nil {
		return alloc.Cost{}
	}
	return n.Outcome.Result.Cost
}

// FitsOn solves the claims on a changed view, for explain.Remedies. When too much was
// tried nothing fits any more.
func (v *Verdict) FitsOn(view *inventory.View) bool {
	problem := v.problem
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Node == view.Node && n.way != nil {
			problem = n.way.problem
		}
	}
	out, err := v.leftAgain.allocate(problem, view)
	return err == nil && out.Result != nil
}

// Try says where the pod could go. It changes nothing. The error is a failure of
// the search, not an answer.
func (w *World) Try(pod *v1.Pod) (*Verdict, error) {
	defer w.aside(pod)()
	v := &Verdict{Pod: pod, strategy: w.options.Strategy}
	v.Claims, v.Obstacle = w.Claims(pod)
	if v.Obstacle == nil && pod.DeletionTimestamp != nil {
		v.Obstacle = &Obstacle{Kind: Deleted}
	}
	if v.Obstacle == nil && len(pod.Spec.SchedulingGates) > 0 {
		v.Obstacle = &Obstacle{Kind: Gated, Name: pod.Spec.SchedulingGates[0].Name}
	}
	if v.Obstacle == nil {
		v.Obstacle = w.overQuota(pod, v.Claims)
	}
	snapshot := w.inv.Snapshot()
	if v.Obstacle == nil {
		v.Obstacle = w.leaveUnusable(v, snapshot)
	}
	if v.Obstacle != nil {
		return v, nil
	}
	for _, c := range v.Claims {
		if c.Object.Status.Allocation == nil && !slices.Contains(v.pending, c.Object) {
			v.pending = append(v.pending, c.Object)
		}
	}
	var err error
	v.problem, err = w.compile(v.pending, v.containers())
	if input := (*alloc.InputError)(nil); errors.As(err, &input) {
		v.Obstacle = &Obstacle{Kind: BadInput, Input: input}
		return v, nil
	} else if err != nil {
		return nil, err
	}
	v.left = newPurse(v.problem, len(w.cluster.Nodes))
	v.leftAgain = v.left
	if v.Obstacle = v.notShareable(snapshot); v.Obstacle != nil {
		return v, nil
	}
	v.asks = claim.WithStatuses(pod, claim.Statuses(pod, v.allocated(snapshot)))
	for _, node := range w.cluster.Nodes {
		n, err := w.ask(v, node, snapshot)
		if err != nil {
			return nil, err
		}
		if v.Obstacle != nil {
			v.Nodes = nil
			return v, nil
		}
		v.Nodes = append(v.Nodes, n)
	}
	v.choose()
	return v, nil
}

func (w *World) ask(v *Verdict, node *v1.Node, snapshot *inventory.Snapshot) (NodeVerdict, error) {
	n := NodeVerdict{Node: node, used: w.used[node.Name].fraction(node), pending: v.pending}
	demands := w.demandsOn(v, node)
	n.Misfits = w.misfits(v.asks, node)
	for _, c := range v.Claims {
		if a := c.Object.Status.Allocation; a != nil && !claim.Reaches(a, node) {
			n.Misfits = append(n.Misfits, Misfit{Kind: ClaimElsewhere, Claim: c.Object.Namespace + "/" + c.Object.Name})
		}
	}
	if name := v.needless(node); name != "" {
		n.Misfits = append(n.Misfits, Misfit{Kind: SpecialNeedless, Claim: name})
	}
	if len(n.Misfits) > 0 || len(v.pending) == 0 && len(demands) == 0 {
		return n, nil
	}
	var err error
	if n.way, err = w.wayFor(v, demands); n.way == nil {
		return n, err
	}
	if why := n.way.overQuota; why != "" {
		n.Misfits = append(n.Misfits, Misfit{Kind: SpecialOverQuota, Detail: why})
		return n, nil
	}
	n.View = snapshot.View(node)
	if len(v.freed) > 0 {
		n.View = n.View.WhatIf(v.freed, nil)
	}
	n.View.Room = claim.Room(v.asks, w.left(node))
	if avoid := w.avoided(v, n.Wanted()); len(avoid) > 0 {
		if n.Outcome, err = v.left.allocate(n.way.problem, n.View.WhatIf(nil, avoid)); err != nil || n.Outcome.Result != nil {
			return n, err
		}
	}
	n.Outcome, err = v.left.allocate(n.way.problem, n.View)
	return n, err
}

// avoided are the devices that claims get only where no others do.
func (w *World) avoided(v *Verdict, claims []*resourceapi.ResourceClaim) []inventory.Hold {
	var avoid []inventory.Hold
	for _, f := range v.Failed {
		avoid = append(avoid, inventory.Hold{Device: f.Device})
	}
	if w.options.Avoid != nil {
		for _, c := range claims {
			avoid = append(avoid, w.options.Avoid(c)...)
		}
	}
	return avoid
}

// Check has alloc's checker, which shares no code with the search, look at what the pod
// gets on the best node.
func (w *World) Check(v *Verdict) []alloc.Violation {
	n := v.Best
	if n.Outcome.Result == nil {
		return nil
	}
	return alloc.Check(n.View, n.Wanted(), w.cluster.Class, w.options.Matcher, n.way.containers, n.Outcome.Result.Claims)
}

// containers counts, for each pending claim, the containers that refer to it.
func (v *Verdict) containers() []int {
	counts := make([]int, len(v.pending))
	for _, c := range v.Claims {
		if i := slices.Index(v.pending, c.Object); i >= 0 {
			counts[i] += claim.References(v.Pod, c.Name)
		}
	}
	return counts
}

// allocated lists what the claims of the pod have.
func (v *Verdict) allocated(snapshot *inventory.Snapshot) []claim.Allocated {
	var list []claim.Allocated
	for _, c := range v.Claims {
		if a := c.Object.Status.Allocation; a != nil {
			list = append(list, claim.Allocated{
				Entry: c.Name, Claim: c.Object.Name, Containers: v.specialUsers(c), Results: a.Devices.Results, Devices: snapshot.DevicesOf(a),
			})
		}
	}
	return list
}

func (v *Verdict) choose() {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Fits() && (v.Best == nil || cmp.Or(v.strategy.Compare(n.cost(), v.Best.cost()), cmp.Compare(n.used, v.Best.used)) < 0) {
			v.Best = n
		}
	}
}

// Place is Try, and gives the pod what it gets: its claims become allocated and
// reserved and the node is used by it. The verdict's claims are those after that.
func (w *World) Place(pod *v1.Pod) (*Verdict, error) {
	v, err := w.Try(pod)
	if err != nil || v.Best == nil {
		return v, err
	}
	w.aside(pod)
	if v.outdated != nil {
		w.dropClaim(v.outdated)
	}
	for i := range v.Claims {
		c := v.Claims[i].Object
		placed := *c
		if k := slices.Index(v.pending, c); k >= 0 {
			placed.Status.Allocation = &v.Best.Outcome.Result.Claims[k]
		}
		if !claim.ReservedFor(c, pod) {
			placed.Status.ReservedFor = append(slices.Clone(c.Status.ReservedFor), claim.AsConsumer(pod))
		}
		v.Claims[i].Object = &placed
		w.setClaim(&placed)
	}
	w.placeSpecial(v)
	w.bind(v)
	return v, nil
}

// bind notes the pod as running on its node, or as waiting there for its devices.
func (w *World) bind(v *Verdict) {
	bound := v.Pod.DeepCopy()
	if len(v.Unready) > 0 {
		bound.Status.NominatedNodeName = v.Best.Node.Name
	} else {
		bound.Spec.NodeName = v.Best.Node.Name
	}
	bound.Status.ResourceClaimStatuses = nil
	bound.Status.NodeAllocatableResourceClaimStatuses = claim.Statuses(bound, v.allocated(w.inv.Snapshot()))
	for _, c := range v.Claims {
		if c.Template != "" {
			bound.Status.ResourceClaimStatuses = append(bound.Status.ResourceClaimStatuses,
				v1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &c.Object.Name})
		}
	}
	if way := v.Best.way; way != nil && way.special != nil {
		mappings, _ := claim.MappingsOf(way.demands)
		bound.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: way.special.Name, RequestMappings: mappings}
	}
	v.Placed = bound
	w.used[v.Best.Node.Name].add(bound)
	if i := slices.Index(w.pods, v.Pod); i >= 0 {
		w.pods[i] = bound
	} else {
		w.pods = append(w.pods, bound)
	}
}
