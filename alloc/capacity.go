// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"gopkg.in/inf.v0"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// consumption is what a request consumes of one capacity of a device, following
// its request policy (DeviceCapacity.requestPolicy, KEP-5075): the default, or
// the whole capacity, where nothing is requested; else the request rounded up to
// the next valid value or step. ok is false where the policy refuses the
// request, or the request or the result is no valid amount.
func consumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (q resource.Quantity, ok bool) {
	policy := c.RequestPolicy
	switch {
	case requested != nil && requested.Sign() < 0:
		return requested.DeepCopy(), false
	case requested == nil && policy != nil && policy.Default != nil:
		q = policy.Default.DeepCopy()
		return q, q.Sign() >= 0
	case requested == nil:
		q = c.Value.DeepCopy()
	default:
		q = requested.DeepCopy()
	}
	switch {
	case policy == nil:
		return q, q.Sign() >= 0
	case policy.Default != nil && q.Cmp(*policy.Default) == 0:
		return q, q.Sign() >= 0
	case len(policy.ValidValues) > 0:
		return nextValue(q, policy.ValidValues)
	case policy.ValidRange != nil:
		return nextStep(q, policy.ValidRange)
	}
	return q, q.Sign() >= 0
}

// nextValue returns the smallest valid value that is not below q. The API keeps
// them sorted.
func nextValue(q resource.Quantity, valid []resource.Quantity) (resource.Quantity, bool) {
	for _, v := range valid {
		if q.Cmp(v) <= 0 {
			return v.DeepCopy(), v.Sign() >= 0
		}
	}
	return q, false
}

// nextStep rounds q up to min + n*step and checks it against max.
func nextStep(q resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) (resource.Quantity, bool) {
	switch {
	case r.Min != nil && q.Cmp(*r.Min) < 0:
		q = r.Min.DeepCopy()
	case r.Step != nil && r.Step.Sign() > 0:
		q = roundUp(q, r)
	}
	return q, q.Sign() >= 0 && (r.Max == nil || q.Cmp(*r.Max) <= 0)
}

// roundUp is exact for fractions of any size, which the int64 accessors of
// Quantity are not. The result has the format of the step.
func roundUp(q resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) resource.Quantity {
	if rounded, ok := roundWhole(&q, r); ok {
		return *resource.NewQuantity(rounded, r.Step.Format)
	}
	const nanos = 9
	unscaled := func(q *resource.Quantity) *big.Int {
		if q == nil {
			return new(big.Int)
		}
		own := q.DeepCopy() // AsDec changes the representation of its receiver
		return new(inf.Dec).Round(own.AsDec(), nanos, inf.RoundUp).UnscaledBig()
	}
	low, step := unscaled(r.Min), unscaled(r.Step)
	n := new(big.Int).Sub(unscaled(&q), low)
	if n.Sign() > 0 {
		n.Add(n, step).Sub(n, big.NewInt(1)).Div(n, step)
	}
	rounded := n.Mul(n, step).Add(n, low)
	if whole, rest := new(big.Int).DivMod(rounded, big.NewInt(1e9), new(big.Int)); rest.Sign() == 0 && whole.IsInt64() {
		return *resource.NewQuantity(whole.Int64(), r.Step.Format)
	}
	return *resource.NewDecimalQuantity(*inf.NewDecBig(rounded, nanos), r.Step.Format)
}

// roundWhole is roundUp for whole numbers that are not too large for int64, as nearly
// all are. ok is false for others.
func roundWhole(q *resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) (rounded int64, ok bool) {
	low := int64(0)
	if r.Min != nil {
		if low, ok = r.Min.AsInt64(); !ok {
			return 0, false
		}
	}
	step, ok := r.Step.AsInt64()
	n, whole := q.AsInt64()
	const most = math.MaxInt64 / 4
	if !ok || !whole || low < 0 || n < 0 || n > most || low > most || step > most {
		return 0, false
	}
	if n <= low {
		return low - (low-n)/step*step, true
	}
	return low + (n-low+step-1)/step*step, true
}

// missesCapacity reports whether the ask requests a capacity that the device does
// not have, or one under both spellings of its name: nobody knows which amount is
// meant.
func (b *board) missesCapacity(a *ask, d *inventory.Device) bool {
	// One more name than the device has capacities is not there.
	b.meter.pay(len(a.twice) + 2*min(len(a.capacity), len(d.Spec.Capacity)+1))
	for _, name := range a.twice {
		if inventory.LocalName(d.ID.Driver, name) != name {
			return true
		}
	}
	for name := range a.capacity {
		if _, _, found := inventory.Named(d.Spec.Capacity, d.ID.Driver, name); !found {
			return true
		}
	}
	return false
}

// spelledTwice returns, sorted, the names with a domain whose rest is requested, too. On
// devices of the driver with that domain the two are one.
func spelledTwice(requests map[resourceapi.QualifiedName]resource.Quantity) []resourceapi.QualifiedName {
	var twice []resourceapi.QualifiedName
	for name := range requests {
		if _, id, domain := strings.Cut(string(name), "/"); domain {
			if _, found := requests[resourceapi.QualifiedName(id)]; found {
				twice = append(twice, name)
			}
		}
	}
	slices.Sort(twice)
	return twice
}

// requested is what the ask requests of a capacity of a driver's device, nil where it
// does not name it.
func (a *ask) requested(driver string, capacity resourceapi.QualifiedName) *resource.Quantity {
	if len(a.capacity) == 0 {
		return nil
	}
	if _, q, found := inventory.Named(a.capacity, driver, capacity); found {
		return &q
	}
	return nil
}

// consume works out what the ask takes of each capacity and reports whether
// that is there. Of several errors it returns that of the first capacity by name.
func (b *board) consume(f *field, i int) (enough bool, err error) {
	u := &b.units[i]
	if !b.problem.reading.weighs(f.ask) && !u.multi {
		return true, nil
	}
	if b.missesCapacity(f.ask, u.dev) {
		return false, nil
	}
	b.meter.pay(capacityWork * len(u.dev.Spec.Capacity))
	if !u.multi {
		return b.suffices(f, u)
	}
	b.meter.pay(capacityWork * len(u.shares))
	amounts, refused, enough := make([]inventory.Amount, len(u.shares)), false, true
	for k, s := range u.shares {
		c := u.dev.Spec.Capacity[s.name]
		q, ok, err := b.problem.reading.consumption(f.requested(u.dev.ID.Driver, s.name), &c)
		switch {
		case err != nil:
			return false, f.capacityError(u, s.name, err)
		case !ok || q.Cmp(c.Value) > 0:
			refused = true
			continue
		}
		amounts[k] = inventory.AmountOf(q)
		enough = enough && (!f.occupies || b.free[s.counter].Cmp(amounts[k]) >= 0)
	}
	if refused {
		return false, nil
	}
	if f.consumed == nil {
		b.meter.payBytes(24 * len(b.units))
		f.consumed = make([][]inventory.Amount, len(b.units))
	}
	f.consumed[i] = amounts
	return enough, nil
}

// capacityWork is for working out what a request takes of one capacity.
const capacityWork = 20

// suffices reports whether each capacity of a unit is enough for the ask.
func (b *board) suffices(f *field, u *unit) (enough bool, err error) {
	enough = true
	var fault *DeviceError
	for name, c := range u.dev.Spec.Capacity {
		q, ok, err := b.problem.reading.consumption(f.requested(u.dev.ID.Driver, name), &c)
		switch {
		case err != nil:
			if fault == nil || name < fault.Capacity {
				fault = f.capacityError(u, name, err)
			}
		case !ok || q.Cmp(c.Value) > 0:
			enough = false
		}
	}
	if fault != nil {
		return false, fault
	}
	return enough, nil
}

// capacityError says for whom a capacity could not be worked out.
func (f *field) capacityError(u *unit, name resourceapi.QualifiedName, err error) *DeviceError {
	return &DeviceError{RequestRef: f.ref, All: f.all, Device: u.dev.ID, Capacity: name, Err: err}
}

// countsForAll reports whether an All request must have the unit: all that match
// the selectors, except those too small for the capacity it asks for.
func (b *board) countsForAll(f *field, i int) bool {
	u := &b.units[i]
	if !b.problem.reading.weighs(f.ask) {
		return true
	}
	if b.missesCapacity(f.ask, u.dev) {
		return false
	}
	b.meter.pay(capacityWork * len(u.dev.Spec.Capacity))
	enough, err := b.suffices(f, u)
	return enough && err == nil
}
