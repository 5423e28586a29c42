// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import "kerf.dev/kerf/cluster"

// Object is an API object.
type Object = cluster.Object

// Backend is a world in which a story takes place. Namespaces of objects are
// set; a story that names none lives in [Namespace].
type Backend interface {
	// Name is core or sandbox.
	Name() string
	// Apply creates the objects, or updates those of the same kind and name. Pods
	// come after everything that they may refer to. The objects become the
	// backend's.
	Apply(...Object) error
	// Delete deletes an object. It is an error if there is none.
	Delete(kind Kind, namespace, name string) error
	// Finish lets the containers of a running pod end with success.
	Finish(namespace, pod string) error
	// SetDevices replaces status.devices of a claim, which drivers own.
	SetDevices(*Claim) error
	// Settle returns when nothing moves any more.
	Settle() error
	// State returns what there is.
	State() (*State, error)
	// Reason is what the scheduler last said about a pod that it could not
	// place, empty if it did not.
	Reason(namespace, pod string) (string, error)
}

// Namespace is where the namespaced objects of a story are.
const Namespace = "default"

// Tuner is a backend whose allocator can be tuned and observed.
type Tuner interface {
	// SetBudget sets the step budget, 0 for the default.
	SetBudget(steps int)
	// SetStrategy sets the strategy, by its name in package alloc.
	SetStrategy(name string) error
	// Effort is what the last attempt to place a pod took.
	Effort(namespace, pod string) (Effort, error)
}

// Effort is the work of one attempt to place a pod, over all nodes.
type Effort struct {
	Steps  int
	GaveUp bool
}
