// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
)

// counterAttacks have devices that draw from shared counters.
func counterAttacks() []*kind {
	return []*kind{
		{"counters", []size{{"devices", 256, 1, 8192}, {"sets", 8, 1, 512}, {"counters", 32, 1, 32}, {"fill", 10, 1, 2000}, {"requests", 1, 1, 32}, {"alternatives", 1, 1, 8}, seed},
			"devices=32 sets=2 counters=4 requests=2", denseCounters},
		{"sets", []size{{"devices", 256, 1, 256}, {"sets", 4096, 1, 4096}, {"counters", 32, 1, 32}, {"fill", 10, 1, 2000}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=32 sets=40 counters=4 requests=2 alternatives=2", denseCounters},
		{"groups", []size{{"devices", 256, 1, 256}, {"sets", 2, 1, 64}, {"groups", 24, 2, 64}, {"requests", 32, 1, 32}, {"alternatives", 1, 1, 8}, seed},
			"devices=16 groups=4 requests=3", compatibilityGroups},
	}
}

// counterSets have so many counters of the same amount.
func counterSets(count, counters, amount int) []resourceapi.CounterSet {
	sets := make([]resourceapi.CounterSet, count)
	for s := range sets {
		sets[s] = resourceapi.CounterSet{Name: setName(s), Counters: map[string]resourceapi.Counter{}}
		for c := range counters {
			sets[s].Counters[counterName(c)] = resourceapi.Counter{Value: whole(amount)}
		}
	}
	return sets
}

func setName(s int) string     { return fmt.Sprintf("set-%d", s) }
func counterName(c int) string { return fmt.Sprintf("counter-%d", c) }

// denseCounters draw from all counters of two sets, different amounts of each.
// Fill is the mean amount, in thousandths of what there is.
func denseCounters(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		for _, set := range rnd.Perm(p["sets"])[:min(2, p["sets"])] {
			draw := resourceapi.DeviceCounterConsumption{CounterSet: setName(set), Counters: map[string]resourceapi.Counter{}}
			for c := range p["counters"] {
				draw.Counters[counterName(c)] = resourceapi.Counter{Value: whole(rnd.IntN(2*p["fill"]) + 1)}
			}
			d.ConsumesCounters = append(d.ConsumesCounters, draw)
		}
	})
	c := grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })
	return &attack{slices: published(devices, counterSets(p["sets"], p["counters"], 1000)), claims: []*resourceapi.ResourceClaim{c}}
}

// compatibilityGroups lets any two devices of a set be used together where they
// share a group, and seldom more.
func compatibilityGroups(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(i int, d *resourceapi.Device) {
		draw := resourceapi.DeviceCounterConsumption{CounterSet: setName(i % p["sets"]), Counters: map[string]resourceapi.Counter{counterName(0): {Value: whole(1)}}}
		for _, g := range rnd.Perm(p["groups"])[:2] {
			draw.CompatibilityGroups = append(draw.CompatibilityGroups, fmt.Sprintf("g%d", g))
		}
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{draw}
	})
	c := grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })
	return &attack{slices: published(devices, counterSets(p["sets"], 1, 1000)), claims: []*resourceapi.ResourceClaim{c}, alpha: true}
}
