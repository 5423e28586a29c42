// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// Strategy says which of several possible devices to choose.
type Strategy string

const (
	// BestFit, the default, prefers in this order: a device that was attached for
	// the claim; no binding conditions; the
	// smallest sufficient device; the choice that destroys the fewest
	// placements of other partitions, weighted by their size; a counter set
	// that is in use before a fresh one; listed order.
	BestFit Strategy = "BestFit"
	// Spread prefers fresh counter sets and devices far from those in use.
	Spread Strategy = "Spread"
	// Listed takes the first that fits in listed order.
	Listed Strategy = "Listed"
)

// DefaultStepBudget bounds the effort for one node. Problems met in practice
// need a few steps per device; the default ends a pathological one within
// about a second.
const DefaultStepBudget = 200_000

// Options tune a Problem. The zero value is the default.
type Options struct {
	Strategy Strategy
	// StepBudget is the number of devices that may be tried, and a measure for all
	// other work: evaluating CEL, counting, ranking, explaining and memory may
	// take as long together as trying so many; 0 means DefaultStepBudget.
	StepBudget int
	// Containers has, for each claim, how many containers of the pod refer to it
	// (KEP-5517: what devices cost of the node's resources per container).
	Containers []int
	// Among, where not nil, are the only devices to choose from, and the claim that has
	// each of them already, empty for one that no claim has. An inventory.ArrivingTaint
	// does not count for the claim that has the device, since it came later, nor for
	// the claim that it names. What arrives for another claim is nobody else's.
	Among map[inventory.DeviceID]types.UID
	// Stock, where set, makes everything come out as with the stock allocator, for
	// callers that rely on its corner cases; see stock.go. It goes with Listed.
	// Results come without Cost and refusals without explanation.
	Stock *StockRules
	// Stop, where set, ends an attempt before its budget does. It is for whoever
	// asks and cannot wait; answers do not depend on it but for giving up.
	Stop Stop
	// work is what an attempt may take where that is less than StepBudget allows.
	work int64
}

func (o Options) withDefaults() Options {
	if o.Strategy == "" {
		o.Strategy = BestFit
	}
	if o.StepBudget == 0 {
		o.StepBudget = DefaultStepBudget
	}
	o.work = workFor(o.StepBudget)
	return o
}

// reading is the way to read the API.
func (o Options) reading() reading {
	if o.Stock != nil {
		return &stock{*o.Stock}
	}
	return own{}
}

// Matcher evaluates CEL expressions on devices. Package selector implements it.
// Implementations must be deterministic and safe for concurrent use.
type Matcher interface {
	// Compile reports whether the selector expression is valid.
	Compile(expression string) error
	// Match evaluates a selector (DeviceSelector.cel). An error is a run-time
	// error, for example a missing attribute, or that of stop, which may be nil.
	// cost is that of the evaluation in CEL's units, whether it is evaluated now or
	// was before.
	Match(stop Stop, expression string, device *inventory.Device) (match bool, cost uint64, err error)
	// Derive evaluates a derived attribute (DeviceDerivedAttribute).
	Derive(stop Stop, expression string, device *inventory.Device) (attribute *resourceapi.DeviceAttribute, cost uint64, err error)
	// Comparisons returns conditions all of which a device must meet to match a
	// selector, few of them; complete is set where there are no others. They serve to
	// explain why nothing matches, so an implementation may return none.
	Comparisons(expression string) (comparisons []inventory.Comparison, complete bool)
}

// Classes looks up device classes by name and returns nil for unknown ones.
type Classes func(name string) *resourceapi.DeviceClass

// InputError is the error for claims that can never be allocated as they are:
// an unknown class, an invalid selector, a request of no known kind.
type InputError struct {
	// Object is "claim ns/name" or "device class name"; Field the path of the
	// field at fault within the object.
	Object, Field string
	// Problem says what is wrong and Class, where set, is the device class
	// that does not exist.
	Problem string
	Class   string
	Err     error
}

// Error names the object, the field and the problem.
func (e *InputError) Error() string {
	text := e.Object + ": " + e.Field + ": " + e.Problem
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the underlying error, if any.
func (e *InputError) Unwrap() error { return e.Err }
