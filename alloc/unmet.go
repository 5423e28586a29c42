// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// Unmet is a condition of a request's selectors that keeps it from devices of its class:
// what is asked for, and what is there.
type Unmet struct {
	inventory.Comparison
	// Have is the value that comes closest to the one asked for. For == and != it is all
	// that there are, each once, in order. It is empty where no device has the property.
	Have []string
	// Rest is set where some devices meet the condition, but not those that meet all of
	// the request's other conditions, and counts these. Have is then about them.
	Rest int
}

const (
	// maxConditions bounds the conditions of a request that are looked at, maxUnmet
	// those that are told.
	maxConditions, maxUnmet = 16, 3
	// compareWork is for comparing one property of a device.
	compareWork = 20
)

// unmet finds conditions of an ask's selectors that none of the devices meets, which its
// class matches and the selectors do not. Where each is met by some, it is one that none
// of those meets that meet all others. There are none where the selectors ask for more
// than that, or where there is no time to find out.
func (e *explainer) unmet(f *field, devices []*inventory.Device) []Unmet {
	if len(devices) == 0 {
		return nil
	}
	conditions, complete := e.conditions(f)
	e.meter.pay(compareWork * len(devices) * len(conditions))
	if e.meter.out() {
		return nil
	}
	lacks := make([]int, len(devices))      // conditions that the device does not meet
	last := make([]int, len(devices))       // one of them
	without := make([]int, len(conditions)) // devices that do not meet the condition
	for i, d := range devices {
		for k := range conditions {
			if !conditions[k].Met(d) {
				lacks[i], last[i] = lacks[i]+1, k
				without[k]++
			}
		}
	}
	if slices.Contains(without, len(devices)) {
		return e.allLack(conditions, without, devices)
	}
	if !complete {
		return nil
	}
	for k := range conditions {
		var of []*inventory.Device
		for i, d := range devices {
			if lacks[i] == 1 && last[i] == k {
				of = append(of, d)
			}
		}
		if u, told := e.instead(&conditions[k], of); len(of) > 0 && told {
			u.Rest = len(of)
			return []Unmet{u}
		}
	}
	return nil
}

// allLack are the conditions that none of the devices meets.
func (e *explainer) allLack(conditions []inventory.Comparison, without []int, devices []*inventory.Device) []Unmet {
	var found []Unmet
	for k := range conditions {
		if without[k] < len(devices) || len(found) == maxUnmet {
			continue
		}
		if u, told := e.instead(&conditions[k], devices); told {
			found = append(found, u)
		}
	}
	return found
}

// conditions are those of all selectors of an ask; complete is set where there are no others.
func (e *explainer) conditions(f *field) (conditions []inventory.Comparison, complete bool) {
	complete = true
	for _, expression := range f.selectors {
		if !e.meter.payCompilation(expression) {
			return conditions, false
		}
		more, all := e.problem.matcher.Comparisons(expression)
		conditions, complete = append(conditions, more...), complete && all
	}
	if len(conditions) > maxConditions {
		return conditions[:maxConditions], false
	}
	return conditions, complete
}

// instead says what the devices have that do not meet a condition. It is not told where
// they have the property, but with values of other types: then the selector fails.
func (e *explainer) instead(c *inventory.Comparison, devices []*inventory.Device) (u Unmet, told bool) {
	e.meter.pay(compareWork * len(devices))
	u.Comparison = *c
	has := false
	var values []inventory.Value
	seen := map[string]bool{}
	for _, d := range devices {
		v, found := c.Of(d)
		has = has || found
		if _, ordered := v.Compare(c.Values[0]); found && ordered && !seen[v.String()] {
			seen[v.String()] = true
			values = append(values, v)
		}
	}
	slices.SortFunc(values, c.ByDistance)
	if c.Ordered() {
		values = values[:min(1, len(values))]
	}
	for _, v := range values {
		u.Have = append(u.Have, v.String())
	}
	return u, len(values) > 0 || !has
}
