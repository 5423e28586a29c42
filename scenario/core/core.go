// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/selector"
)

// Backend is a world without an API server. Its zero value is not usable, see
// [New]. Objects in it are never changed, only replaced.
type Backend struct {
	objects   map[key]scenario.Object
	inventory *inventory.Inventory
	matcher   alloc.Matcher
	options   alloc.Options

	// serial numbers objects in the order of their creation.
	serial int
	born   map[key]int
	// moved is set by every change that others may react to.
	moved bool
	// last is the last attempt to place a pod.
	last map[types.UID]verdict
	// failed are the devices that failed to become ready for a claim. Others are
	// tried before them.
	failed map[types.UID][]inventory.Hold
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
	waits    string
	attempts []attempt
	err      error
}

// New returns an empty world.
func New() *Backend {
	return &Backend{
		objects:   map[key]scenario.Object{},
		inventory: inventory.New(),
		matcher:   selector.New(),
		born:      map[key]int{},
		last:      map[types.UID]verdict{},
		failed:    map[types.UID][]inventory.Hold{},
	}
}

// Name is core.
func (b *Backend) Name() string { return "core" }

// State returns what there is.
func (b *Backend) State() (*scenario.State, error) { return b.state(), nil }

func (b *Backend) state() *scenario.State {
	var objects cluster.Objects
	for _, o := range b.objects {
		objects.Add(o)
	}
	return scenario.NewState(&objects)
}

// get returns the object of that name, if there is one of its type.
func get[T scenario.Object](b *Backend, kind, namespace, name string) (T, bool) {
	o, found := b.objects[key{kind, namespace, name}].(T)
	return o, found
}

// Reason is what the last attempt to place the pod ended with.
func (b *Backend) Reason(namespace, pod string) (string, error) {
	p, found := get[*v1.Pod](b, "Pod", namespace, pod)
	if !found {
		return "", fmt.Errorf("no pod %s/%s", namespace, pod)
	}
	last, tried := b.last[p.UID]
	if !tried || last.waits != "" {
		return last.waits, nil
	}
	return reason(last.attempts, last.err), nil
}

// Effort is the work of the last attempt to place the pod.
func (b *Backend) Effort(namespace, pod string) (scenario.Effort, error) {
	p, found := get[*v1.Pod](b, "Pod", namespace, pod)
	if !found {
		return scenario.Effort{}, fmt.Errorf("no pod %s/%s", namespace, pod)
	}
	return effort(b.last[p.UID].attempts), nil
}

// SetBudget sets the step budget of attempts to come.
func (b *Backend) SetBudget(steps int) { b.options.StepBudget, b.moved = steps, true }

// SetStrategy sets the strategy of attempts to come.
func (b *Backend) SetStrategy(name string) error {
	strategies := []alloc.Strategy{alloc.BestFit, alloc.Spread, alloc.Listed}
	if !slices.Contains(strategies, alloc.Strategy(name)) {
		return fmt.Errorf("no strategy %q; there are: %v", name, strategies)
	}
	b.options.Strategy, b.moved = alloc.Strategy(name), true
	return nil
}
