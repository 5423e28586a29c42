// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// billionths is the quantity in 1e-9, the finest that the API server stores.
func billionths(q resource.Quantity) *big.Int {
	high, low := inventory.AmountOf(q).Words()
	n := new(big.Int).Lsh(big.NewInt(int64(high)), 64)
	return n.Add(n, new(big.Int).SetUint64(low))
}

// capacityProblem says why a device can never provide the capacity that a
// request asks for, whatever else uses it.
func capacityProblem(r *checkedRequest, d *inventory.Device) string {
	requests := capacityRequests(r)
	asked := map[string]resourceapi.QualifiedName{}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		id := ownName(name, d.ID.Driver)
		if other, twice := asked[id]; twice {
			return fmt.Sprintf("is asked for %s and %s, which are one capacity", other, name)
		}
		asked[id] = name
		if !slices.ContainsFunc(slices.Collect(maps.Keys(d.Spec.Capacity)), func(has resourceapi.QualifiedName) bool { return ownName(has, d.ID.Driver) == id }) {
			return fmt.Sprintf("has no capacity %s", name)
		}
		if asked := requests[name]; asked.Sign() < 0 {
			return fmt.Sprintf("cannot be asked for a negative amount of %s", name)
		}
	}
	if len(requests) == 0 && !d.MultiAlloc() {
		return "" // It is had as a whole, whatever is published.
	}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Capacity)) {
		capacity := d.Spec.Capacity[name]
		amount := consumedAmount(requests, d, name)
		switch {
		case amount.Sign() < 0:
			return fmt.Sprintf("would give a negative amount of %s", name)
		case amount.Cmp(billionths(capacity.Value)) > 0:
			return fmt.Sprintf("has only %s of %s", &capacity.Value, name)
		case !allowedAmount(amount, capacity.RequestPolicy):
			return fmt.Sprintf("does not give %s in the amount asked for, see its request policy", name)
		}
	}
	return ""
}

func capacityRequests(r *checkedRequest) map[resourceapi.QualifiedName]resource.Quantity {
	if r.spec.Capacity == nil {
		return nil
	}
	return r.spec.Capacity.Requests
}

// consumedAmount is what a request takes of one capacity (KEP-5075): without a
// request the default, or all where there is none; else the amount asked for,
// rounded up to what the request policy allows.
func consumedAmount(requests map[resourceapi.QualifiedName]resource.Quantity, d *inventory.Device, name resourceapi.QualifiedName) *big.Int {
	capacity := d.Spec.Capacity[name]
	policy := capacity.RequestPolicy
	var q resource.Quantity
	asked := false
	for as, amount := range requests {
		if ownName(as, d.ID.Driver) == ownName(name, d.ID.Driver) {
			q, asked = amount, true
		}
	}
	switch {
	case !asked && policy != nil && policy.Default != nil:
		return billionths(*policy.Default)
	case !asked:
		return billionths(capacity.Value)
	case policy == nil:
		return billionths(q)
	}
	amount := billionths(q)
	if policy.ValidRange != nil && policy.ValidRange.Min != nil {
		return roundedUp(amount, policy.ValidRange)
	}
	for _, valid := range policy.ValidValues {
		if v := billionths(valid); v.Cmp(amount) >= 0 {
			return v
		}
	}
	return amount
}

// ownName is what a driver calls a capacity when it leaves its own domain out: names that
// are then the same are one capacity.
func ownName(name resourceapi.QualifiedName, driver string) string {
	return strings.TrimPrefix(string(name), driver+"/")
}

// roundedUp returns the first of min, min+step, min+2·step, ... that suffices.
func roundedUp(amount *big.Int, valid *resourceapi.CapacityRequestPolicyRange) *big.Int {
	minimum := billionths(*valid.Min)
	if amount.Cmp(minimum) <= 0 {
		return minimum
	}
	if valid.Step == nil {
		return amount
	}
	step := billionths(*valid.Step)
	above := new(big.Int).Sub(amount, minimum)
	steps, rest := new(big.Int).DivMod(above, step, new(big.Int))
	if rest.Sign() > 0 {
		steps.Add(steps, big.NewInt(1))
	}
	return steps.Mul(steps, step).Add(steps, minimum)
}

// allowedAmount reports whether the request policy has the amount.
func allowedAmount(amount *big.Int, policy *resourceapi.CapacityRequestPolicy) bool {
	switch {
	case policy == nil, policy.Default != nil && billionths(*policy.Default).Cmp(amount) == 0:
		return true
	case policy.ValidRange != nil && policy.ValidRange.Max != nil:
		return amount.Cmp(billionths(*policy.ValidRange.Max)) <= 0
	case len(policy.ValidValues) > 0:
		return slices.ContainsFunc(policy.ValidValues, func(v resource.Quantity) bool { return billionths(v).Cmp(amount) == 0 })
	}
	return true
}

// checkConsumed verifies the share that a pick is, where the device allows
// multiple allocations, and that it is none elsewhere.
func (c *checker) checkConsumed(p *checkedPick) {
	if !p.device.MultiAlloc() {
		if p.result.ShareID != nil {
			c.reportPick(p, "shareID", "is set, but %s is only given out as a whole", p.device.ID)
		}
		if len(p.result.ConsumedCapacity) > 0 {
			c.reportPick(p, "consumedCapacity", "is set, but %s is only given out as a whole", p.device.ID)
		}
		return
	}
	if p.result.ShareID == nil {
		c.reportPick(p, "shareID", "is not set, but %s is given out in shares", p.device.ID)
	} else if !isUUID(*p.result.ShareID) {
		c.reportPick(p, "shareID", "%q is not a UUID", *p.result.ShareID)
	}
	if got, want := len(p.result.ConsumedCapacity), len(p.device.Spec.Capacity); got != want {
		c.reportPick(p, "consumedCapacity", "has %d entries, the device has %d capacities", got, want)
	}
	for _, name := range slices.Sorted(maps.Keys(p.device.Spec.Capacity)) {
		got := p.result.ConsumedCapacity[name]
		if want := consumedAmount(capacityRequests(p.request), p.device, name); billionths(got).Cmp(want) != 0 {
			c.reportPick(p, fmt.Sprintf("consumedCapacity[%s]", name), "is %s, not what the request and the request policy make it", &got)
		}
	}
}

// isUUID reports whether the API server accepts a share ID: lower-case
// hexadecimal digits in groups of 8, 4, 4, 4 and 12.
func isUUID(id types.UID) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		digit := id[i] >= '0' && id[i] <= '9' || id[i] >= 'a' && id[i] <= 'f'
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (id[i] == '-') || !dash && !digit {
			return false
		}
	}
	return true
}
