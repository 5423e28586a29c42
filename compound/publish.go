// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/inventory"
)

// publication collects the slices of pools.
type publication struct {
	node     string
	previous map[inventory.PoolID][]*resourceapi.ResourceSlice
	slices   []*resourceapi.ResourceSlice
}

func newPublication(node string, previous []*resourceapi.ResourceSlice) *publication {
	p := &publication{node: node, previous: map[inventory.PoolID][]*resourceapi.ResourceSlice{}}
	for _, s := range previous {
		if of := s.Spec.NodeName; of == nil || *of == node {
			id := inventory.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
			p.previous[id] = append(p.previous[id], s)
		}
	}
	return p
}

// drivers publishes the pools of drivers, without what is taken.
func (p *publication) drivers(d *decision) {
	for _, pool := range d.pools {
		if d.closed[pool.ID.Driver] || pool.Problem != nil && d.named[pool.ID.Driver] {
			continue // an atom might be among them
		}
		if pool.Problem != nil {
			for _, slice := range pool.Slices {
				p.slices = append(p.slices, new(*slice)) // the cluster sees what is wrong, too
			}
			continue
		}
		moved := map[string]bool{}
		gone := func(id inventory.DeviceID) bool { _, owned := d.owners[id]; return owned || d.hidden[id] }
		for _, device := range pool.Devices {
			for _, use := range device.Groups {
				if gone(device.ID) {
					moved[pool.Sets[use.Set].Name] = true
				}
			}
		}
		var left []*resourceapi.ResourceSlice
		for _, slice := range pool.Slices {
			if s := without(slice, gone, moved); s != nil {
				left = append(left, s)
			}
		}
		p.pool(left, pool.Generation)
	}
}

// without is a slice without the devices that are gone and the counter sets that moved, nil
// if nothing is left of it.
func without(slice *resourceapi.ResourceSlice, gone func(inventory.DeviceID) bool, moved map[string]bool) *resourceapi.ResourceSlice {
	s := *slice
	s.Spec.Devices = slices.DeleteFunc(slices.Clone(s.Spec.Devices), func(d resourceapi.Device) bool {
		return gone(inventory.DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name})
	})
	s.Spec.SharedCounters = slices.DeleteFunc(slices.Clone(s.Spec.SharedCounters), func(set resourceapi.CounterSet) bool { return moved[set.Name] })
	n := len(s.Spec.Devices) + len(s.Spec.SharedCounters)
	if n == len(slice.Spec.Devices)+len(slice.Spec.SharedCounters) {
		return new(*slice)
	}
	if n == 0 {
		return nil
	}
	return &s
}

// molecules publishes pools of molecules: a policy's devices by what needs no node, with as
// many to a slice as the API allows, and their counter sets in slices of their own.
func (p *publication) molecules(drafts []*draft, sets map[inventory.PoolID][]resourceapi.CounterSet) {
	pools := map[inventory.PoolID]map[string][]*draft{}
	var order []inventory.PoolID
	for _, d := range drafts {
		id := d.PoolID()
		if pools[id] == nil {
			pools[id] = map[string][]*draft{}
			order = append(order, id)
		}
		skip := fmt.Sprint(d.skip)
		pools[id][skip] = append(pools[id][skip], d)
	}
	for _, id := range order {
		var of []*resourceapi.ResourceSlice
		for chunk := range slices.Chunk(sets[id], resourceapi.ResourceSliceMaxCounterSets) {
			of = append(of, p.slice(id, resourceapi.ResourceSliceSpec{SharedCounters: chunk}))
		}
		for _, skip := range sortedKeys(pools[id]) {
			alike := pools[id][skip]
			slices.SortFunc(alike, func(a, b *draft) int { return cmp.Compare(a.device.Name, b.device.Name) })
			for chunk := range slices.Chunk(alike, mostDevices(alike)) {
				spec := resourceapi.ResourceSliceSpec{SkipNodeOperations: normalSkip(chunk[0].skip)}
				for _, d := range chunk {
					spec.Devices = append(spec.Devices, d.device)
				}
				of = append(of, p.slice(id, spec))
			}
		}
		for i, s := range of {
			s.Name = short(strings.ReplaceAll(id.Pool, "/", "-"), validation.DNS1123SubdomainMaxLength, fmt.Sprintf("%s-%d", hashOf(id.Driver, id.Pool), i))
		}
		p.pool(of, 1)
	}
}

func sortedKeys(of map[string][]*draft) []string {
	var keys []string
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// normalSkip says of skipping all nothing else.
func normalSkip(skip []resourceapi.SkipNodeOperation) []resourceapi.SkipNodeOperation {
	if slices.Contains(skip, resourceapi.SkipNodeOperationAll) {
		return []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	}
	return skip
}

// mostDevices is how many of these may be in a slice.
func mostDevices(of []*draft) int {
	for _, d := range of {
		for _, a := range d.device.Attributes {
			if valuesOf(&a).list {
				return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
			}
		}
		if len(d.device.Taints)+len(d.device.ConsumesCounters) > 0 {
			return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	return resourceapi.ResourceSliceMaxDevices
}

func (p *publication) slice(id inventory.PoolID, spec resourceapi.ResourceSliceSpec) *resourceapi.ResourceSlice {
	spec.Driver, spec.NodeName, spec.Pool.Name = id.Driver, &p.node, id.Pool
	return &resourceapi.ResourceSlice{Spec: spec}
}

// pool adds all slices of a pool. They have the generation of the previous ones if they are
// the same, else a higher one that is at least the given.
func (p *publication) pool(of []*resourceapi.ResourceSlice, least int64) {
	if len(of) == 0 {
		return
	}
	id := inventory.PoolID{Driver: of[0].Spec.Driver, Pool: of[0].Spec.Pool.Name}
	highest := int64(-1)
	var before []*resourceapi.ResourceSlice
	for _, s := range p.previous[id] {
		if s.Spec.Pool.Generation > highest {
			highest, before = s.Spec.Pool.Generation, nil
		}
		if s.Spec.Pool.Generation == highest {
			before = append(before, s)
		}
	}
	for _, s := range of {
		s.Spec.Pool.ResourceSliceCount = int64(len(of))
	}
	generation := highest
	switch {
	case highest < 0:
		generation = least
	case slices.Equal(contents(of), contents(before)):
	case highest == math.MaxInt64:
		generation = 1 // whoever reads slices copes with a reset, but not with two contents
	default:
		generation = max(highest+1, least)
	}
	for _, s := range of {
		s.Spec.Pool.Generation = generation
	}
	p.slices = append(p.slices, of...)
}

// contents are texts that differ where slices do in more than the generation, the time of a
// taint, which the API server sets, or their names.
func contents(of []*resourceapi.ResourceSlice) []string {
	var texts []string
	for _, s := range of {
		spec := s.Spec.DeepCopy()
		spec.Pool.Generation = 0
		for i := range spec.Devices {
			for j := range spec.Devices[i].Taints {
				spec.Devices[i].Taints[j].TimeAdded = nil
			}
		}
		text, err := json.Marshal(spec)
		if err != nil {
			text = []byte(spec.String()) // as good for comparing, if values cannot be JSON
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}

func (p *publication) finish() []*resourceapi.ResourceSlice {
	slices.SortStableFunc(p.slices, func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name), cmp.Compare(a.Name, b.Name))
	})
	return p.slices
}
