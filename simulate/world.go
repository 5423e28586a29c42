// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/inventory"
)

// World is a cluster that pods can be placed on. It must not be used by several
// goroutines at once.
type World struct {
	options Options
	cluster *cluster.Snapshot
	used    map[string]*usage

	// claims and pods are the cluster's, with what was placed.
	claims map[types.NamespacedName]*resourceapi.ResourceClaim
	pods   []*v1.Pod
	inv    *inventory.Inventory
}

// Options say how a World allocates.
type Options struct {
	// Matcher evaluates CEL; it is required.
	Matcher alloc.Matcher
	// Strategy and StepBudget are alloc's; zero values are its defaults.
	Strategy   alloc.Strategy
	StepBudget int
	// Quotas may be nil: then there are none.
	Quotas Quotas
	// Avoid, where it is not nil, has devices that a claim gets only where no others do.
	Avoid func(*resourceapi.ResourceClaim) []inventory.Hold
	// Inventory, where it is not nil, is that of the objects, with holds by namespace/name
	// of their claims. One that lives on remembers what devices in use took of counters
	// before their driver published something else.
	Inventory *inventory.Inventory
}

// NewWorld returns the cluster of some objects, which are not changed.
func NewWorld(objects *cluster.Objects, options Options) *World {
	c := cluster.New(objects)
	w := &World{
		options: options, cluster: c, used: map[string]*usage{},
		claims: map[types.NamespacedName]*resourceapi.ResourceClaim{}, pods: slices.Clone(c.Pods), inv: options.Inventory,
	}
	if w.inv == nil {
		w.inv = c.Inventory()
	}
	for _, claim := range c.ResourceClaims {
		w.claims[keyOf(claim)] = claim
	}
	for _, node := range c.Nodes {
		w.used[node.Name] = newUsage()
	}
	for i, pod := range w.pods {
		counted := w.WithSpecial(pod)
		if pod.Spec.NodeName != "" {
			w.pods[i] = counted
		}
		if u := w.used[w.nodeOf(pod)]; u != nil && !claim.Ended(pod) {
			u.add(counted)
		}
	}
	return w
}

// nodeOf is the node whose resources a pod takes: its own, or the one where it waits for
// its devices to become ready; empty where it takes none.
func (w *World) nodeOf(pod *v1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	for ref := range claim.Refs(pod) {
		if c := w.Claim(pod.Namespace, ref.Claim); c != nil && c.Status.Allocation != nil && claim.ReservedFor(c, pod) {
			return pod.Status.NominatedNodeName
		}
	}
	return ""
}

// aside takes a pod that waits on a node out of what is used there, and returns how to
// put it back.
func (w *World) aside(pod *v1.Pod) (back func()) {
	u := w.used[w.nodeOf(pod)]
	if u == nil || !slices.Contains(w.pods, pod) {
		return func() {}
	}
	counted := w.WithSpecial(pod)
	u.remove(counted)
	return func() { u.add(counted) }
}

func keyOf(claim *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// WithSpecial is the function WithSpecial for a pod on its node, with the claim that its
// status names.
func (w *World) WithSpecial(pod *v1.Pod) *v1.Pod {
	c := w.Claim(pod.Namespace, claim.SpecialNamed(pod))
	if c == nil || c.Status.Allocation == nil {
		return pod
	}
	return claim.WithSpecial(pod, c, w.inv.Snapshot().DevicesOf(c.Status.Allocation))
}

// setClaim records a claim and what it holds. Claims are told apart by name, as
// those of manifests have no UID.
func (w *World) setClaim(claim *resourceapi.ResourceClaim) {
	key := keyOf(claim)
	w.claims[key] = claim
	w.inv.SetHolds(key.String(), inventory.HoldsOf(claim))
}

// dropClaim removes a claim and what it holds.
func (w *World) dropClaim(claim *resourceapi.ResourceClaim) {
	key := keyOf(claim)
	delete(w.claims, key)
	w.inv.SetHolds(key.String(), nil)
}

// Snapshot returns what devices exist and what of them is taken.
func (w *World) Snapshot() *inventory.Snapshot { return w.inv.Snapshot() }

// Nodes returns the nodes, by name.
func (w *World) Nodes() []*v1.Node { return w.cluster.Nodes }

// Node returns a node, nil where there is none of that name.
func (w *World) Node(name string) *v1.Node { return w.cluster.Node(name) }

// Claim returns a claim, nil where there is none of that name.
func (w *World) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return w.claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// ClaimByUID returns a claim, nil where there is none with that UID. A dump that
// somebody wrote may have several; it is the first by name.
func (w *World) ClaimByUID(uid types.UID) *resourceapi.ResourceClaim {
	if uid == "" {
		return nil
	}
	return w.firstClaim(func(claim *resourceapi.ResourceClaim) bool { return claim.UID == uid })
}

// firstClaim returns the first by namespace and name that satisfies the condition, nil
// where none does.
func (w *World) firstClaim(is func(*resourceapi.ResourceClaim) bool) *resourceapi.ResourceClaim {
	var found *resourceapi.ResourceClaim
	for _, claim := range w.claims {
		if is(claim) && (found == nil || compareNames(claim, found) < 0) {
			found = claim
		}
	}
	return found
}

func compareNames(a, b *resourceapi.ResourceClaim) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Compile prepares claims for alloc, with the classes of the world.
func (w *World) Compile(claims []*resourceapi.ResourceClaim) (*alloc.Problem, error) {
	return w.compile(claims, nil)
}

func (w *World) compile(claims []*resourceapi.ResourceClaim, containers []int) (*alloc.Problem, error) {
	return alloc.Compile(claims, w.cluster.Class, w.options.Matcher, alloc.Options{Strategy: w.options.Strategy, StepBudget: w.options.StepBudget, Containers: containers})
}

// Objects are those of the world as it is now: with the pods that were placed on their
// nodes, and the claims that they got.
func (w *World) Objects() *cluster.Objects {
	now := w.cluster.Objects
	now.Pods = slices.Clone(w.pods)
	now.ResourceClaims = slices.Collect(maps.Values(w.claims))
	now.Sort()
	return &now
}
