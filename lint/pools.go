// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// checkPools reports the problems that make a pool unusable, and devices that can
// never be allocated.
func (c *checker) checkPools() {
	for _, pool := range c.pools {
		collides, maimed := c.collides(pool), c.maimed(pool)
		for _, e := range pool.Problems {
			switch e.Kind {
			case inventory.Incomplete, inventory.CountMismatch:
				if collides || maimed {
					continue // which explains it
				}
			case inventory.MissingCounterSet, inventory.MissingCounter:
				if maimed {
					continue
				}
			}
			c.poolProblem(pool, e)
		}
		for _, d := range pool.Devices {
			c.oversized(pool, d)
		}
	}
}

func (c *checker) poolProblem(pool *inventory.Pool, e *inventory.PoolProblem) {
	problem := fmt.Sprintf("pool %s offers nothing: %s", pool.ID, explain.Problem(pool, e))
	switch e.Kind {
	case inventory.Incomplete:
		slice := c.slicesOf(pool)[0]
		fix := "publish the missing slices, or set the field to the number there are; it passes by itself while a driver replaces its slices"
		if e.Have > e.Want {
			fix = "delete the slices that do not belong to the pool, or set the field to the number there are"
		}
		c.slice(Error, "pool-incomplete", slice.Name, "spec.pool.resourceSliceCount", problem, fix)
	case inventory.CountMismatch:
		c.slice(Error, "pool-slice-count", last(e.Slices), "spec.pool.resourceSliceCount", problem,
			"publish the same number in all slices of a generation; raise spec.pool.generation when it changes")
	case inventory.DuplicateDevice:
		slice := c.slices[last(e.Slices)]
		c.slice(Error, "duplicate-device", slice.Name, lastDevicePath(slice, e.Name)+".name", problem,
			"give each device of the pool a name of its own, or publish the devices of each node in a pool of its own")
	case inventory.DuplicateCounterSet:
		slice := c.slices[last(e.Slices)]
		c.slice(Error, "duplicate-counter-set", slice.Name, lastSetPath(slice, e.Name)+".name", problem,
			"publish each counter set of the pool once")
	case inventory.MissingCounterSet, inventory.MissingCounter:
		c.dangling(e, problem)
	case inventory.Uncountable:
		c.slice(Error, "uncountable-quantity", e.Name, e.Field, problem, "publish the amount that there is")
	case inventory.BadNodeSelector: // see checkNodeSelectors, which knows the device
	}
}

func (c *checker) dangling(e *inventory.PoolProblem, problem string) {
	slice := c.slices[e.Slices[0]]
	field := devicePath(slice, e.Device)
	fix := fmt.Sprintf("add counter set %s to spec.sharedCounters of a slice of the pool, or correct the name", e.Name)
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		k := slices.IndexFunc(d.ConsumesCounters, func(cc resourceapi.DeviceCounterConsumption) bool { return cc.CounterSet == e.Name })
		if d.Name == e.Device && k >= 0 {
			field += fmt.Sprintf(".consumesCounters[%d]", k)
		}
	}
	if e.Kind == inventory.MissingCounter {
		field += fmt.Sprintf(".counters[%s]", e.Counter)
		fix = fmt.Sprintf("add counter %s to counter set %s, or correct the name", e.Counter, e.Name)
	} else {
		field += ".counterSet"
	}
	c.slice(Error, "dangling-counter", slice.Name, field, problem, fix)
}

// oversized reports a device that consumes more than a counter ever has.
func (c *checker) oversized(pool *inventory.Pool, d *inventory.Device) {
	for _, draw := range d.Draws {
		counter := pool.Counters[draw.Counter]
		if draw.Amount.Cmp(counter.Value) <= 0 {
			continue
		}
		set := pool.Sets[counter.Set].Name
		k := slices.IndexFunc(d.Spec.ConsumesCounters, func(cc resourceapi.DeviceCounterConsumption) bool { return cc.CounterSet == set })
		c.slice(Error, "oversized-device", d.Slice.Name,
			fmt.Sprintf("%s.consumesCounters[%d].counters[%s].value", devicePath(d.Slice, d.ID.Device), k, counter.Name),
			fmt.Sprintf("device %s can never be allocated: it consumes %s, counter set %s has %s", d.ID, explain.Amount(draw.Amount), set, explain.Amount(counter.Value)),
			"lower what the device consumes, or raise the counter in spec.sharedCounters")
		return
	}
}

// maimed reports whether a slice that may belong to the pool is left out, because
// it does not say so properly.
func (c *checker) maimed(pool *inventory.Pool) bool {
	return slices.ContainsFunc(c.dump.ResourceSlices, func(s *resourceapi.ResourceSlice) bool {
		return !identified(s) && (s.Spec.Driver == "" || s.Spec.Driver == pool.ID.Driver) && (s.Spec.Pool.Name == "" || s.Spec.Pool.Name == pool.ID.Pool)
	})
}

// collides reports a pool that several nodes publish as if it were theirs alone:
// slices for different nodes whose number is not what they say.
func (c *checker) collides(pool *inventory.Pool) bool {
	nodes := map[string]string{} // node -> one of its slices
	var publishers []string
	for _, slice := range c.slicesOf(pool) {
		if node := slice.Spec.NodeName; node != nil && nodes[*node] == "" {
			nodes[*node] = slice.Name
			publishers = append(publishers, fmt.Sprintf("%s (slice %s)", *node, slice.Name))
		}
	}
	collides := len(nodes) > 1 && (pool.Problem != nil && (pool.Problem.Kind == inventory.CountMismatch || pool.Problem.Kind == inventory.Incomplete && pool.Problem.Have > pool.Problem.Want))
	if collides {
		names := slices.Sorted(maps.Values(nodes))
		c.slice(Error, "pool-collision", last(names), "spec.pool.name",
			fmt.Sprintf("pool %s offers nothing: nodes %s publish it, each as its own", pool.ID, strings.Join(publishers, " and ")),
			"name the pool after the node, as node-local drivers do")
	}
	return collides
}

// checkGenerations reports slices below the newest generation: those of another
// node hide its devices, others were left behind.
func (c *checker) checkGenerations() {
	for _, pool := range c.pools {
		newest := c.slicesOf(pool)
		for _, slice := range sortedSlices(c.dump.ResourceSlices) {
			if c.slices[slice.Name] == nil || slice.Spec.Driver != pool.ID.Driver || slice.Spec.Pool.Name != pool.ID.Pool || slice.Spec.Pool.Generation == pool.Generation {
				continue
			}
			other := newest[0]
			if n, o := slice.Spec.NodeName, other.Spec.NodeName; n != nil && o != nil && *n != *o {
				c.slice(Error, "pool-collision", slice.Name, "spec.pool.name",
					fmt.Sprintf("its devices on node %s are hidden: node %s publishes pool %s with the higher generation %d (slice %s)", *n, *o, pool.ID, pool.Generation, other.Name),
					"name the pool after the node, as node-local drivers do")
				continue
			}
			c.slice(Warning, "pool-stale-slices", slice.Name, "spec.pool.generation",
				fmt.Sprintf("generation %d of pool %s is not used any more, %d is published", slice.Spec.Pool.Generation, pool.ID, pool.Generation),
				"delete the slice; drivers do so after they publish a new generation")
		}
	}
}

// slicesOf returns the slices of a pool's newest generation, by name; there is at
// least one.
func (c *checker) slicesOf(pool *inventory.Pool) []*resourceapi.ResourceSlice {
	return slices.DeleteFunc(sortedSlices(c.dump.ResourceSlices), func(s *resourceapi.ResourceSlice) bool {
		return c.slices[s.Name] == nil || s.Spec.Driver != pool.ID.Driver || s.Spec.Pool.Name != pool.ID.Pool || s.Spec.Pool.Generation != pool.Generation
	})
}

func sortedSlices(of []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	return slices.SortedFunc(slices.Values(of), func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
}

func last(names []string) string { return names[len(names)-1] }

// lastDevicePath is the path of the last device of that name.
func lastDevicePath(slice *resourceapi.ResourceSlice, device string) string {
	for i := len(slice.Spec.Devices) - 1; i >= 0; i-- {
		if slice.Spec.Devices[i].Name == device {
			return fmt.Sprintf("spec.devices[%d]", i)
		}
	}
	return "spec.devices"
}

// lastSetPath is the path of the last counter set of that name.
func lastSetPath(slice *resourceapi.ResourceSlice, set string) string {
	for i := len(slice.Spec.SharedCounters) - 1; i >= 0; i-- {
		if slice.Spec.SharedCounters[i].Name == set {
			return fmt.Sprintf("spec.sharedCounters[%d]", i)
		}
	}
	return "spec.sharedCounters"
}
