// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/show"
	"kerf.dev/kerf/simulate"
)

// Backend is a world without an API server. Its zero value is not usable, see
// [New]. Objects in it are never changed, only replaced.
type Backend struct {
	objects map[key]scenario.Object
	options simulate.Options

	// serial counts the objects that were created. It is the time, in seconds.
	serial int64
	// moved is set by every change that others may react to.
	moved bool
	// placer is simulate's world of the objects, nil where they have changed since.
	placer *show.World
	// last is the last attempt to place a pod.
	last map[types.UID]verdict
	// failed are the devices that failed to become ready for a claim.
	failed map[key][]inventory.Hold
}

var (
	_ scenario.Backend = &Backend{}
	_ scenario.Tuner   = &Backend{}
)

// key names an object.
type key struct{ kind, namespace, name string }

func keyOf(o scenario.Object) key {
	return key{scenario.KindOf(o).Name, o.GetNamespace(), o.GetName()}
}

// verdict is how the last attempt to place a pod went.
type verdict struct {
	// waits says what the pod waits for that has devices and a node.
	waits string
	*simulate.Verdict
	known explain.Options
}

// New returns an empty world.
func New() *Backend {
	b := &Backend{
		objects: map[key]scenario.Object{},
		last:    map[types.UID]verdict{},
		failed:  map[key][]inventory.Hold{},
	}
	b.options = simulate.Options{
		Matcher: selector.New(), Inventory: inventory.New(),
		Avoid: func(c *scenario.Claim) []inventory.Hold { return b.failed[key{"ResourceClaim", c.Namespace, c.Name}] },
	}
	return b
}

// Name is core.
func (b *Backend) Name() string { return "core" }

// State returns what there is.
func (b *Backend) State() (*scenario.State, error) { return scenario.NewState(b.all()), nil }

func (b *Backend) all() *cluster.Objects {
	var objects cluster.Objects
	for _, o := range b.objects {
		objects.Add(o)
	}
	return &objects
}

// world is where pods are placed, as things are now.
func (b *Backend) world() *show.World {
	if b.placer == nil {
		b.placer = &show.World{World: simulate.NewWorld(b.all(), b.options)}
	}
	return b.placer
}

func (b *Backend) pod(namespace, name string) (*v1.Pod, error) {
	pod, found := b.objects[key{"Pod", namespace, name}].(*v1.Pod)
	if !found {
		return nil, fmt.Errorf("no pod %s/%s", namespace, name)
	}
	return pod, nil
}

// Reason is what the last attempt to place the pod ended with: what is to be said of
// several nodes is said once.
func (b *Backend) Reason(namespace, name string) (string, error) {
	pod, err := b.pod(namespace, name)
	if err != nil {
		return "", err
	}
	last := b.last[pod.UID]
	switch {
	case last.waits != "" || last.Verdict == nil:
		return last.waits, nil
	case last.Obstacle != nil:
		return show.Obstacle(last.Obstacle, last.known), nil
	}
	text := fmt.Sprintf("0/%d nodes are available", len(last.Nodes))
	for _, line := range show.Lines(last.Verdict, last.known) {
		text += "; " + line.String()
	}
	return text, nil
}

// Effort is the work of the last attempt to place the pod.
func (b *Backend) Effort(namespace, name string) (scenario.Effort, error) {
	var e scenario.Effort
	pod, err := b.pod(namespace, name)
	if err != nil {
		return e, err
	}
	last := b.last[pod.UID].Verdict
	if last == nil {
		return e, errors.New("no attempt to place it was made")
	}
	for i := range last.Nodes {
		e.Steps += last.Nodes[i].Outcome.Steps
		e.GaveUp = e.GaveUp || last.Nodes[i].Outcome.GaveUp != nil
	}
	return e, nil
}

// SetBudget sets the step budget of attempts to come.
func (b *Backend) SetBudget(steps int) {
	b.options.StepBudget = steps
	b.changed()
}

// SetStrategy sets the strategy of attempts to come.
func (b *Backend) SetStrategy(name string) error {
	strategies := []alloc.Strategy{alloc.BestFit, alloc.Spread, alloc.Listed}
	if !slices.Contains(strategies, alloc.Strategy(name)) {
		return fmt.Errorf("no strategy %q; there are: %v", name, strategies)
	}
	b.options.Strategy = alloc.Strategy(name)
	b.changed()
	return nil
}

// changed has everything tried again, on a new world.
func (b *Backend) changed() { b.moved, b.placer = true, nil }
