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
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/inventory"
)

// Key names a namespaced object.
type Key struct {
	Namespace, Name string
}

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// World is a cluster that pods can be placed on. It must not be used by several
// goroutines at once.
type World struct {
	options Options
	nodes   []*v1.Node
	used    map[string]*usage

	classes   map[string]*resourceapi.DeviceClass
	templates map[Key]*resourceapi.ResourceClaimTemplate
	claims    map[Key]*resourceapi.ResourceClaim
	inv       *inventory.Inventory

	base *dump.Dump
	pods []*v1.Pod // base's, with those that were placed
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
}

// NewWorld returns the cluster of a dump. The dump is not changed.
func NewWorld(d *dump.Dump, options Options) *World {
	w := &World{
		options:   options,
		nodes:     slices.SortedFunc(slices.Values(d.Nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) }),
		used:      map[string]*usage{},
		classes:   map[string]*resourceapi.DeviceClass{},
		templates: map[Key]*resourceapi.ResourceClaimTemplate{},
		claims:    map[Key]*resourceapi.ResourceClaim{},
		inv:       inventory.New(),
		base:      d,
		pods:      slices.Clone(d.Pods),
	}
	for _, node := range w.nodes {
		w.used[node.Name] = newUsage()
	}
	for _, class := range d.DeviceClasses {
		w.classes[class.Name] = class
	}
	for _, t := range d.ResourceClaimTemplates {
		w.templates[Key{t.Namespace, t.Name}] = t
	}
	for _, slice := range d.ResourceSlices {
		w.inv.SetSlice(slice)
	}
	for _, rule := range d.DeviceTaintRules {
		w.inv.SetTaintRule(rule)
	}
	for _, c := range d.ResourceClaims {
		w.setClaim(c)
	}
	for i, pod := range w.pods {
		if u := w.used[pod.Spec.NodeName]; u != nil && !claim.Ended(pod) {
			w.pods[i] = w.WithSpecial(pod)
			u.add(w.pods[i])
		}
	}
	return w
}

// WithSpecial is the function WithSpecial for a pod on its node, with the claim that its
// status names.
func (w *World) WithSpecial(pod *v1.Pod) *v1.Pod {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return pod
	}
	c := w.claims[Key{pod.Namespace, status.ResourceClaimName}]
	if c == nil || c.Status.Allocation == nil {
		return pod
	}
	return claim.WithSpecial(pod, c, w.inv.Snapshot().DevicesOf(c.Status.Allocation))
}

// setClaim records a claim and what it holds. Claims are told apart by name, as
// those of manifests have no UID.
func (w *World) setClaim(claim *resourceapi.ResourceClaim) {
	key := Key{claim.Namespace, claim.Name}
	w.claims[key] = claim
	w.inv.SetHolds(key.String(), inventory.HoldsOf(claim))
}

// dropClaim removes a claim and what it holds.
func (w *World) dropClaim(claim *resourceapi.ResourceClaim) {
	key := Key{claim.Namespace, claim.Name}
	delete(w.claims, key)
	w.inv.SetHolds(key.String(), nil)
}

// Snapshot returns what devices exist and what of them is taken.
func (w *World) Snapshot() *inventory.Snapshot { return w.inv.Snapshot() }

// Nodes returns the nodes, by name.
func (w *World) Nodes() []*v1.Node { return w.nodes }

// Node returns a node, nil where there is none of that name.
func (w *World) Node(name string) *v1.Node {
	for _, node := range w.nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// Claim returns a claim, nil where there is none of that name.
func (w *World) Claim(key Key) *resourceapi.ResourceClaim { return w.claims[key] }

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
	var first Key
	var found *resourceapi.ResourceClaim
	for key, claim := range w.claims {
		if is(claim) && (found == nil || key.compare(first) < 0) {
			first, found = key, claim
		}
	}
	return found
}

// Compile prepares claims for alloc, with the classes of the world.
func (w *World) Compile(claims []*resourceapi.ResourceClaim) (*alloc.Problem, error) {
	return w.compile(claims, nil)
}

func (w *World) compile(claims []*resourceapi.ResourceClaim, containers []int) (*alloc.Problem, error) {
	classes := func(name string) *resourceapi.DeviceClass { return w.classes[name] }
	return alloc.Compile(claims, classes, w.options.Matcher, alloc.Options{Strategy: w.options.Strategy, StepBudget: w.options.StepBudget, Containers: containers})
}

// Dump returns the world as it is now: with the pods that were placed on their
// nodes, and the claims that they got.
func (w *World) Dump() *dump.Dump {
	now := dump.New()
	now.Merge(w.base)
	now.Pods = slices.Clone(w.pods)
	now.ResourceClaims = slices.Collect(maps.Values(w.claims))
	now.Sort()
	return now
}
