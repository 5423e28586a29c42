// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// publication is what a pool or slice verb says.
type publication struct {
	name, driver, pool string
	generation, count  int64 // generation is 0 if it is not said
	reach              reach
	perDevice          bool
	sets               []resourceapi.CounterSet
	devices            []resourceapi.Device
}

// parsePublication reads the verb's line and body.
func parsePublication(c call) (*publication, error) {
	name, clauses, err := c.nameAndClauses("of", "pool", "generation", "slices", "on", "everywhere", "per-device")
	if err != nil {
		return nil, err
	}
	p := &publication{name: name, pool: name, count: 1}
	for _, cl := range clauses {
		if err := p.add(cl); err != nil {
			return nil, err
		}
	}
	if p.driver == "" {
		return nil, fmt.Errorf("%s: want: of DRIVER", p.name)
	}
	if p.reach == (reach{}) && !p.perDevice {
		return nil, fmt.Errorf("%s: want one of: on NODE..., everywhere, per-device", p.name)
	}
	for _, l := range c.body {
		if err := p.addLine(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	return p, nil
}

func (p *publication) add(c clause) (err error) {
	switch c.keyword {
	case "of":
		p.driver, err = c.one()
	case "pool":
		p.pool, err = c.one()
	case "generation":
		p.generation, err = c.number()
	case "slices":
		p.count, err = c.number()
	case "on", "everywhere":
		p.reach, err = parseReach(c)
	case "per-device":
		p.perDevice = true
	}
	return err
}

func (p *publication) addLine(l line) error {
	switch w := l.words; {
	case w[0].is("counters") && len(w) > 2:
		counters, err := parseCounters(w[2:])
		p.sets = append(p.sets, resourceapi.CounterSet{Name: w[1].text, Counters: counters})
		return err
	case w[0].is("device"):
		devices, err := parseDevices(w[1:])
		p.devices = append(p.devices, devices...)
		return err
	default:
		return fmt.Errorf("%s: want a line that begins with counters or device", w[0].text)
	}
}

// slice makes one ResourceSlice of the pool.
func (p *publication) slice(name string, sets []resourceapi.CounterSet, devices []resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{}
	s.Name = name
	s.Spec = resourceapi.ResourceSliceSpec{
		Driver:         p.driver,
		Pool:           resourceapi.ResourcePool{Name: p.pool, Generation: p.generation, ResourceSliceCount: p.count},
		NodeName:       p.reach.nodeName,
		NodeSelector:   p.reach.selector,
		AllNodes:       p.reach.allNodes,
		SharedCounters: sets,
		Devices:        devices,
	}
	if p.perDevice {
		s.Spec.PerDeviceNodeSelection = &p.perDevice
	}
	return s
}

// slices makes the ResourceSlices of a whole pool, in as few as the API allows:
// counter sets and devices may not be in the same slice.
func (p *publication) slices() []*resourceapi.ResourceSlice {
	sets := slices.Collect(slices.Chunk(p.sets, resourceapi.ResourceSliceMaxCounterSets))
	devices := slices.Collect(slices.Chunk(p.devices, p.maxDevices()))
	p.count = int64(max(1, len(sets)+len(devices)))
	var all []*resourceapi.ResourceSlice
	name := func() string {
		if p.count == 1 {
			return p.name
		}
		return fmt.Sprintf("%s-%03d", p.name, len(all))
	}
	for _, chunk := range sets {
		all = append(all, p.slice(name(), chunk, nil))
	}
	for _, chunk := range devices {
		all = append(all, p.slice(name(), nil, chunk))
	}
	if len(all) == 0 {
		all = append(all, p.slice(name(), nil, nil))
	}
	return all
}

// maxDevices is what the API allows in one slice: fewer where a device has
// taints, counters or lists.
func (p *publication) maxDevices() int {
	if slices.ContainsFunc(p.devices, isAdvanced) {
		return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourceapi.ResourceSliceMaxDevices
}

func isAdvanced(d resourceapi.Device) bool {
	for _, a := range d.Attributes {
		if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0
}

// doPool publishes a complete pool, the way a driver does: in a new generation,
// and the slices that are not part of it any more are deleted.
func doPool(t *telling, c call) (string, error) {
	p, err := parsePublication(c)
	if err != nil {
		return "", err
	}
	state, err := t.backend.State()
	if err != nil {
		return "", err
	}
	if p.generation == 0 {
		p.generation = p.newest(state) + 1
	}
	keep := map[string]bool{}
	for _, s := range p.slices() {
		keep[s.Name] = true
		if err := t.apply("slice", s); err != nil {
			return "", err
		}
	}
	if err := t.flush(); err != nil {
		return "", err
	}
	for _, s := range state.ResourceSlices {
		if p.publishes(s) && !keep[s.Name] {
			if err := t.delete("slice", s.Name); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// publishes reports whether the slice belongs to the pool.
func (p *publication) publishes(s *resourceapi.ResourceSlice) bool {
	return s.Spec.Driver == p.driver && s.Spec.Pool.Name == p.pool
}

// newest returns the highest generation of the pool so far.
func (p *publication) newest(state *State) int64 {
	var newest int64
	for _, s := range state.ResourceSlices {
		if p.publishes(s) {
			newest = max(newest, s.Spec.Pool.Generation)
		}
	}
	return newest
}

// doSlice publishes a single slice, whatever that makes of its pool.
func doSlice(t *telling, c call) (string, error) {
	p, err := parsePublication(c)
	if err != nil {
		return "", err
	}
	p.generation = max(p.generation, 1)
	return "", t.apply("slice", p.slice(p.name, p.sets, p.devices))
}
