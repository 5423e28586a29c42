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
	c.checkRivals()
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
		slice := pool.Slices[0]
		fix := "publish the missing slices, or set the field to the number there are; it passes by itself while a driver replaces its slices"
		if e.Have > e.Want {
			fix = "delete the slices that do not belong to the pool, or set the field to the number there are"
		}
		c.slice(Error, "pool-incomplete", slice.Name, "spec.pool.resourceSliceCount", problem, fix)
	case inventory.Superseded:
		c.slice(Error, "pool-collision", pool.Slices[0].Name, "spec.pool.name", problem,
			"name the pool after the node, as node-local drivers do; delete slices of old generations")
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
	return slices.ContainsFunc(c.cluster.ResourceSlices, func(s *resourceapi.ResourceSlice) bool {
		return !identified(s) && (s.Spec.Driver == "" || s.Spec.Driver == pool.ID.Driver) && (s.Spec.Pool.Name == "" || s.Spec.Pool.Name == pool.ID.Pool)
	})
}

// collides reports a pool that several nodes publish as if it were theirs alone:
// slices for different nodes whose number is not what they say.
func (c *checker) collides(pool *inventory.Pool) bool {
	nodes := map[string]string{} // node -> one of its slices
	var publishers []string
	for _, slice := range pool.Slices {
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

// maxPublishers bounds how many of a pool's publishers are named.
const maxPublishers = 4

// checkRivals reports pools that nodes have as their own, though others publish one of the
// same name. The parts of a pool come one after the other.
func (c *checker) checkRivals() {
	for rest := c.pools; len(rest) > 0; {
		id, n := rest[0].ID, 1
		for n < len(rest) && rest[n].ID == id {
			n++
		}
		parts := slices.DeleteFunc(slices.Clone(rest[:n]), func(p *inventory.Pool) bool { return p.Problem != nil })
		rest = rest[n:]
		if len(parts) < 2 {
			continue
		}
		var publishers []string
		for _, p := range parts {
			publishers = append(publishers, fmt.Sprintf("%s (slice %s)", forWhom(p.Slices[0]), p.Slices[0].Name))
		}
		slices.Sort(publishers)
		if more := len(publishers) - maxPublishers; more > 0 {
			publishers = append(publishers[:maxPublishers], fmt.Sprintf("%d more", more))
		}
		at := slices.MaxFunc(parts, func(a, b *inventory.Pool) int { return cmp.Compare(a.Slices[0].Name, b.Slices[0].Name) })
		c.slice(Error, "pool-collision", at.Slices[0].Name, "spec.pool.name",
			fmt.Sprintf("%s publish pool %s, each as its own; devices of the same name are given out only once", strings.Join(publishers, " and "), id),
			"name the pool after the node, as node-local drivers do")
	}
}

func forWhom(slice *resourceapi.ResourceSlice) string {
	if slice.Spec.NodeName != nil {
		return "node " + *slice.Spec.NodeName
	}
	return "a publisher for several nodes"
}

// checkGenerations reports slices below the newest generation that no node uses: they
// were left behind.
func (c *checker) checkGenerations() {
	newest, used := map[inventory.PoolID]int64{}, map[string]bool{}
	for _, pool := range c.pools {
		newest[pool.ID] = max(newest[pool.ID], pool.Generation)
		for _, slice := range pool.Slices {
			used[slice.Name] = true
		}
	}
	for _, slice := range c.slices {
		id := inventory.PoolID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name}
		if used[slice.Name] || slice.Spec.Pool.Generation == newest[id] {
			continue
		}
		c.slice(Warning, "pool-stale-slices", slice.Name, "spec.pool.generation",
			fmt.Sprintf("generation %d of pool %s is not used any more, %d is published", slice.Spec.Pool.Generation, id, newest[id]),
			"delete the slice; drivers do so after they publish a new generation")
	}
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
