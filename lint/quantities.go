// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// checkQuantities reports the quantities of a slice that are below zero.
func (s sliceSpec) checkQuantities() {
	for i := range s.slice.Spec.SharedCounters {
		s.checkCounters(fmt.Sprintf("spec.sharedCounters[%d].counters", i), s.slice.Spec.SharedCounters[i].Counters)
	}
	for i := range s.slice.Spec.Devices {
		s.checkDevice(fmt.Sprintf("spec.devices[%d]", i), &s.slice.Spec.Devices[i])
	}
}

func (s sliceSpec) checkDevice(path string, d *resourceapi.Device) {
	for i := range d.ConsumesCounters {
		s.checkCounters(fmt.Sprintf("%s.consumesCounters[%d].counters", path, i), d.ConsumesCounters[i].Counters)
	}
	for name, capacity := range sorted(d.Capacity) {
		field := fmt.Sprintf("%s.capacity[%s]", path, name)
		s.notNegative(field+".value", &capacity.Value)
		if p := capacity.RequestPolicy; p != nil {
			s.checkPolicy(field+".requestPolicy", p)
		}
	}
}

func (s sliceSpec) checkPolicy(path string, p *resourceapi.CapacityRequestPolicy) {
	s.notNegative(path+".default", p.Default)
	for i := range p.ValidValues {
		s.notNegative(fmt.Sprintf("%s.validValues[%d]", path, i), &p.ValidValues[i])
	}
	if p.ValidRange != nil {
		s.notNegative(path+".validRange.min", p.ValidRange.Min)
	}
}

func (s sliceSpec) checkCounters(path string, counters map[string]resourceapi.Counter) {
	for name, counter := range sorted(counters) {
		s.notNegative(fmt.Sprintf("%s[%s].value", path, name), &counter.Value)
	}
}

// notNegative reports a quantity below zero, which the API takes. A nil quantity is not
// set.
func (s subject) notNegative(field string, q *resource.Quantity) {
	if q != nil && q.Sign() < 0 {
		s.report(Warning, "negative-quantity", field, "use 0 or more", "%s is negative", q)
	}
}

// sorted yields the entries of a map by key.
func sorted[K cmp.Ordered, V any](of map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if !yield(key, of[key]) {
				return
			}
		}
	}
}
