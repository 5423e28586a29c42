// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

const (
	// leastCost is what evaluating expressions may take in any case, in CEL's units, and
	// deviceCost how much more for each device: a hundred times what classes cost that
	// look at a driver and an attribute or two. A million take a quarter of a second.
	leastCost, deviceCost = 2_000_000, 2_000
	// evaluationCost is for an evaluation, whatever it computes.
	evaluationCost = 4
)

// budget is what is left for evaluating CEL, of all classes and claims together.
// Anybody may have written them, and each evaluation may take a quarter of a second.
type budget struct {
	left int
	// unchecked is the first object whose expressions could not be evaluated on all
	// devices, and more how many others there are.
	unchecked *Finding
	more      int
}

func newBudget(pools []*inventory.Pool) *budget {
	b := &budget{left: leastCost}
	for _, pool := range pools {
		b.left += deviceCost * len(pool.Devices)
	}
	return b
}

func (b *budget) pay(cost uint64) { b.left -= evaluationCost + int(min(cost, leastCost)) }

func (b *budget) out() bool { return b.left <= 0 }

// skip notes that what a finding would be about was not looked at.
func (b *budget) skip(f Finding) {
	if b.unchecked == nil {
		b.unchecked = &f
	} else {
		b.more++
	}
}

// checkBudget reports what was not evaluated.
func (c *checker) checkBudget() {
	f := c.cel.unchecked
	if f == nil {
		return
	}
	f.Level, f.Rule = Warning, "expressions-unchecked"
	others := ""
	if c.cel.more > 0 {
		others = fmt.Sprintf("; %d more were not evaluated at all or in part", c.cel.more)
	}
	f.Problem = "evaluating the expressions on the devices takes too long, and was given up here" + others
	f.Fix = "simplify the expression (nested loops, regular expressions that are put together), or lint fewer objects at once"
	c.add(*f)
}

// match evaluates a selector on a device.
func (c *checker) match(s resourceapi.DeviceSelector, d *inventory.Device) (bool, error) {
	match, cost, err := c.matcher.Match(nil, s.CEL.Expression, d)
	c.cel.pay(cost)
	return match, err
}

// derives evaluates a derived attribute on a device.
func (c *checker) derives(expression string, d *inventory.Device) error {
	_, cost, err := c.matcher.Derive(nil, expression, d)
	c.cel.pay(cost)
	return err
}
