// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"errors"
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	errUnrepresentable = errors.New("capacity request cannot be represented in the device's range arithmetic")
	errNegative        = errors.New("capacity value is negative")
)

// wholeConsumption and fractionalConsumption say what a request consumes of a
// capacity (DeviceCapacity.requestPolicy, KEP-5075). Package alloc is exact here
// and the stock allocator computes with 64 bits: in whole units, or, with the
// feature FractionalCapacityRange and where everything is a multiple of 1m, in
// thousandths.
func wholeConsumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (resource.Quantity, bool, error) {
	return consumption(requested, c, false)
}

func fractionalConsumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (resource.Quantity, bool, error) {
	return consumption(requested, c, true)
}

func consumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity, fractional bool) (q resource.Quantity, ok bool, err error) {
	switch policy := c.RequestPolicy; {
	case requested != nil && requested.Sign() < 0: // before a policy makes an amount of it
		return *requested, false, fmt.Errorf("%w: request %s", errNegative, requested)
	case requested == nil && policy != nil && policy.Default != nil:
		q = policy.Default.DeepCopy()
	case requested == nil:
		q = c.Value.DeepCopy()
	case policy != nil && policy.ValidRange != nil && policy.ValidRange.Min != nil:
		if q, err = nextStep(requested, policy.ValidRange, fractional); err != nil {
			return q, false, err
		}
	case policy != nil:
		q = nextValue(requested, policy.ValidValues)
	default:
		q = requested.DeepCopy()
	}
	if q.Sign() < 0 {
		return q, false, errNegative
	}
	return q, permits(c.RequestPolicy, q, fractional), nil
}

// nextValue is the smallest valid value that is not below the request, or the
// request where there is none.
func nextValue(requested *resource.Quantity, valid []resource.Quantity) resource.Quantity {
	for i := range valid {
		if requested.Cmp(valid[i]) <= 0 {
			return valid[i].DeepCopy()
		}
	}
	return requested.DeepCopy()
}

// nextStep rounds the request up to min + n*step, in the format of the step.
func nextStep(requested *resource.Quantity, r *resourceapi.CapacityRequestPolicyRange, fractional bool) (resource.Quantity, error) {
	switch {
	case requested.Cmp(*r.Min) < 0:
		return r.Min.DeepCopy(), nil
	case r.Step == nil:
		return requested.DeepCopy(), nil
	}
	scale := scaleOf(r, fractional)
	value, ok := scale.read(requested)
	if !ok {
		return resource.Quantity{}, fmt.Errorf("%w: request %s is not a number of %s", errUnrepresentable, requested, scale.name)
	}
	low, step := scale.value(r.Min), scale.value(r.Step)
	n := ceil(value-low, step)
	if low >= 0 && step > 0 && n > (math.MaxInt64-low)/step {
		return resource.Quantity{}, fmt.Errorf("%w: rounding request %s up to the next step exceeds the largest number of %s", errUnrepresentable, requested, scale.name)
	}
	return *scale.make(low+n*step, r.Step.Format), nil
}

// ceil divides and rounds up. The API requires steps above zero.
func ceil(a, step int64) int64 {
	if step <= 0 {
		return 0
	}
	n := a / step
	if a%step != 0 {
		n++
	}
	return n
}

// permits reports whether the policy allows to consume this much. A default is
// always allowed, if it is written the same way.
func permits(policy *resourceapi.CapacityRequestPolicy, q resource.Quantity, fractional bool) bool {
	switch {
	case policy == nil || policy.Default != nil && q == *policy.Default:
		return true
	case policy.ValidRange != nil:
		return inRange(policy.ValidRange, q, fractional)
	}
	for i := range policy.ValidValues {
		if q.Cmp(policy.ValidValues[i]) == 0 {
			return true
		}
	}
	return len(policy.ValidValues) == 0
}

func inRange(r *resourceapi.CapacityRequestPolicyRange, q resource.Quantity, fractional bool) bool {
	switch {
	case r.Max != nil && q.Cmp(*r.Max) > 0:
		return false
	case r.Step == nil:
		return true
	}
	scale := scaleOf(r, fractional)
	value, low, step := scale.value(&q), int64(0), scale.value(r.Step)
	if r.Min != nil {
		low = scale.value(r.Min)
	}
	if scale == thousandths {
		if _, ok := scale.read(&q); !ok {
			return false
		}
	}
	return step <= 0 || (value-low)%step == 0
}

// scale is what the numbers of a range are counted in.
type scale struct {
	name  string
	value func(*resource.Quantity) int64
	// read is value where the quantity can be counted.
	read func(*resource.Quantity) (int64, bool)
	make func(int64, resource.Format) *resource.Quantity
}

var (
	units = &scale{
		name:  "units",
		value: (*resource.Quantity).Value,
		read: func(q *resource.Quantity) (int64, bool) {
			return q.Value(), q.CmpInt64(math.MaxInt64) <= 0
		},
		make: resource.NewQuantity,
	}
	thousandths = &scale{
		name:  "thousandths",
		value: (*resource.Quantity).MilliValue,
		read:  milli,
		make: func(v int64, format resource.Format) *resource.Quantity {
			if v%1000 == 0 {
				return resource.NewQuantity(v/1000, format)
			}
			return resource.NewMilliQuantity(v, format)
		},
	}
)

func scaleOf(r *resourceapi.CapacityRequestPolicyRange, fractional bool) *scale {
	if !fractional {
		return units
	}
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q == nil {
			continue
		}
		if _, ok := milli(q); !ok {
			return units
		}
	}
	if r.Step != nil && r.Step.MilliValue() < 1 {
		return units
	}
	return thousandths
}

// milli returns a quantity in thousandths, if it is a number of them.
func milli(q *resource.Quantity) (int64, bool) {
	v := q.MilliValue()
	return v, q.Cmp(*resource.NewMilliQuantity(v, q.Format)) == 0
}
