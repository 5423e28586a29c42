// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"math/big"
	"slices"

	"gopkg.in/inf.v0"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// checkPolicy reports a request policy that contradicts itself or the capacity it
// divides: requests would be rounded to shares that do not exist.
func (s sliceSpec) checkPolicy(path string, d *resourceapi.Device, capacity *resourceapi.DeviceCapacity) {
	p := policy{s, path, &capacity.Value, capacity.RequestPolicy}
	if !p.countable() {
		return
	}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	switch {
	case !shared:
		p.wrong("", "set allowMultipleAllocations of the device, or remove the policy", "device %s is not shared, so nothing is requested of it", d.Name)
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		p.wrong("", "keep one of the two", "validValues and validRange exclude each other")
	case p.Default == nil && (len(p.ValidValues) > 0 || p.ValidRange != nil):
		p.wrong(".default", "set what requests without an amount get", "the policy has no default")
	}
	p.notNegative(path+".default", p.Default)
	if p.Default != nil {
		p.within(".default", p.Default)
	}
	if len(p.ValidValues) > 0 {
		p.checkValues()
	}
	if p.ValidRange != nil {
		p.checkRange(p.ValidRange)
	}
}

// policy is a request policy, where it is and the capacity that it divides.
type policy struct {
	sliceSpec
	path  string
	value *resource.Quantity
	*resourceapi.CapacityRequestPolicy
}

func (p policy) countable() bool {
	for i := range p.ValidValues {
		if !countable(&p.ValidValues[i]) {
			return false
		}
	}
	r := p.ValidRange
	return countable(p.value, p.Default) && (r == nil || countable(r.Min, r.Max, r.Step))
}

func (p policy) wrong(field, fix, problem string, args ...any) {
	p.report(Error, "request-policy-invalid", p.path+field, fix, problem, args...)
}

// within reports an amount that the device does not have.
func (p policy) within(field string, q *resource.Quantity) {
	if q != nil && q.Cmp(*p.value) > 0 {
		p.wrong(field, "use an amount that the device has", "%s is more than the capacity of %s", q, p.value)
	}
}

func (p policy) checkValues() {
	for i := range p.ValidValues {
		field := fmt.Sprintf(".validValues[%d]", i)
		p.notNegative(p.path+field, &p.ValidValues[i])
		p.within(field, &p.ValidValues[i])
		if i > 0 && p.ValidValues[i-1].Cmp(p.ValidValues[i]) >= 0 {
			p.wrong(field, "list each value once, in ascending order", "%s comes after %s", &p.ValidValues[i], &p.ValidValues[i-1])
		}
	}
	if p.Default != nil && !slices.ContainsFunc(p.ValidValues, func(q resource.Quantity) bool { return q.Cmp(*p.Default) == 0 }) {
		p.wrong(".default", "use one of validValues", "the default %s is not among validValues", p.Default)
	}
}

func (p policy) checkRange(r *resourceapi.CapacityRequestPolicyRange) {
	p.notNegative(p.path+".validRange.min", r.Min)
	p.within(".validRange.min", r.Min)
	p.within(".validRange.max", r.Max)
	if r.Min == nil {
		p.wrong(".validRange.min", "set the smallest amount", "the range has no min")
		return
	}
	if r.Max != nil && r.Min.Cmp(*r.Max) > 0 {
		p.wrong(".validRange.min", "lower min or raise max", "min %s is more than max %s", r.Min, r.Max)
		return
	}
	if p.Default != nil && (p.Default.Cmp(*r.Min) < 0 || r.Max != nil && p.Default.Cmp(*r.Max) > 0) {
		p.wrong(".default", "use an amount between min and max", "the default %s is outside of validRange", p.Default)
	}
	switch {
	case r.Step == nil:
	case r.Step.Sign() <= 0:
		p.wrong(".validRange.step", "use a positive step, or none", "step %s is not positive", r.Step)
	default:
		p.onStep(".default", r, p.Default)
		p.onStep(".validRange.max", r, r.Max)
	}
}

// onStep reports an amount that is not min and a number of steps.
func (p policy) onStep(field string, r *resourceapi.CapacityRequestPolicyRange, q *resource.Quantity) {
	if q == nil || q.Cmp(*r.Min) < 0 {
		return
	}
	rest := new(big.Int).Sub(billionths(q), billionths(r.Min))
	if rest.Mod(rest, billionths(r.Step)).Sign() != 0 {
		p.wrong(field, "use min and a multiple of step", "%s is not %s and a number of steps of %s", q, r.Min, r.Step)
	}
}

// billionths is the quantity in the smallest unit that quantities have.
func billionths(q *resource.Quantity) *big.Int {
	own := q.DeepCopy() // AsDec changes its receiver
	return new(inf.Dec).Round(own.AsDec(), inf.Scale(-resource.Nano), inf.RoundUp).UnscaledBig()
}
