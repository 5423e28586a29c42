// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// application adds file after file to the devices of a driver.
type application struct {
	driver  string
	pools   []Pool
	drafts  map[place]*draft // devices that something was added to
	refused []*Refusal
}

// place is where a device is in the pools that went in.
type place struct{ pool, device int }

func newApplication(driver string, pools []Pool) *application {
	return &application{driver: driver, pools: pools, drafts: map[place]*draft{}}
}

// file adds all that a file asks for, or nothing and says why.
func (a *application) file(f *File) {
	drafts := map[place]*draft{}
	refused := len(a.refused)
	for d, doc := range f.documents {
		if doc.Driver != a.driver {
			continue
		}
		for i, rule := range doc.Rules {
			field := fmt.Sprintf("rules[%d]", i)
			source := Source{File: f.name, Line: f.lines[d][field]}
			if refusal := a.rule(rule, source, drafts); refusal != nil {
				refusal.Field = field + ".add." + refusal.Field
				refusal.Line = lineOf(f.lines[d], refusal.Field)
				a.refused = append(a.refused, refusal)
			}
		}
	}
	if len(a.refused) == refused {
		maps.Copy(a.drafts, drafts)
	}
}

// rule adds to the drafts of its file. It stops at the first device that does not
// take it: the others would say the same.
func (a *application) rule(rule Rule, source Source, drafts map[place]*draft) *Refusal {
	for p, pool := range a.pools {
		for i := range pool.Devices {
			device := &pool.Devices[i]
			if !rule.Select.matches(a.driver, pool.Name, device) {
				continue
			}
			at := place{p, i}
			if drafts[at] == nil {
				drafts[at] = a.drafts[at].clone(device)
			}
			if refusal := drafts[at].add(rule.Add, source, a.driver); refusal != nil {
				refusal.Pool, refusal.Device, refusal.Source = pool.Name, device.Name, source
				return refusal
			}
		}
	}
	return nil
}

func (a *application) result() Result {
	result := Result{Pools: slices.Clone(a.pools), Refused: a.refused}
	for p := range result.Pools {
		result.Pools[p].Devices = slices.Clone(result.Pools[p].Devices)
	}
	for at, d := range a.drafts {
		if !d.added.empty() {
			result.Pools[at.pool].Devices[at.device] = d.device
			d.added.Pool, d.added.Device = a.pools[at.pool].Name, d.device.Name
			result.Added = append(result.Added, d.added)
		}
	}
	slices.SortFunc(result.Added, func(a, b DeviceAddition) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Device, b.Device))
	})
	return result
}

// draft is a device with what was added to it so far.
type draft struct {
	device  resourceapi.Device
	added   DeviceAddition
	sources map[resourceapi.QualifiedName]Source // of the added attributes, by qualified name
	givers  []Source                             // rules that added anything, in order
}

// clone makes a draft that changes without the first one and without the device.
func (d *draft) clone(device *resourceapi.Device) *draft {
	if d == nil {
		d = &draft{device: *device}
	}
	c := *d
	c.device.Attributes = maps.Clone(d.device.Attributes)
	c.device.Taints = slices.Clone(d.device.Taints)
	c.added.Attributes = maps.Clone(d.added.Attributes)
	c.added.Taints = slices.Clone(d.added.Taints)
	c.sources = maps.Clone(d.sources)
	c.givers = slices.Clone(d.givers)
	return &c
}

// add adds what the device does not have yet.
func (d *draft) add(addition Addition, source Source, driver string) *Refusal {
	before := len(d.added.Attributes) + len(d.added.Taints)
	for _, name := range slices.Sorted(maps.Keys(addition.Attributes)) {
		if refusal := d.addAttribute(name, addition.Attributes[name], source, driver); refusal != nil {
			return refusal
		}
	}
	for _, taint := range addition.Taints {
		d.addTaint(taint)
	}
	if len(d.added.Attributes)+len(d.added.Taints) == before {
		return nil
	}
	refusal := d.overLimit(len(addition.Attributes) > 0)
	if refusal != nil {
		refusal.Others = slices.Clone(d.givers)
	}
	d.givers = append(d.givers, source)
	return refusal
}

func (d *draft) addAttribute(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute, source Source, driver string) *Refusal {
	full := qualify(name, driver)
	have, ok := published(&d.device, name, driver)
	switch {
	case ok && equality.Semantic.DeepEqual(have, value):
		return nil // says the same
	case ok:
		refusal := &Refusal{
			Field:   fmt.Sprintf("attributes[%s]", name),
			Problem: fmt.Sprintf("gives %s, but the device has %s", show(value), show(have)),
			Fix:     "leave the attribute out, or select other devices",
		}
		if other, added := d.sources[full]; added {
			refusal.Others = []Source{other}
		}
		return refusal
	}
	if d.device.Attributes == nil {
		d.device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	}
	if d.added.Attributes == nil {
		d.added.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		d.sources = map[resourceapi.QualifiedName]Source{}
	}
	d.device.Attributes[name] = *value.DeepCopy()
	d.added.Attributes[name] = *value.DeepCopy()
	d.sources[full] = source
	return nil
}

func (d *draft) addTaint(taint resourceapi.DeviceTaint) {
	if !slices.ContainsFunc(d.device.Taints, func(have resourceapi.DeviceTaint) bool { return sameTaint(have, taint) }) {
		d.device.Taints = append(d.device.Taints, taint)
		d.added.Taints = append(d.added.Taints, taint)
	}
}

// overLimit finds a limit of the API that the device exceeds by what was added.
func (d *draft) overLimit(attributes bool) *Refusal {
	if n := len(d.device.Taints); n > resourceapi.DeviceTaintsMaxLength && len(d.added.Taints) > 0 {
		return tooMany("taints", "taints", n, resourceapi.DeviceTaintsMaxLength)
	}
	if !attributes {
		return nil
	}
	if n := len(d.device.Attributes) + len(d.device.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		return tooMany("attributes", "attributes and capacities", n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	if n := valuesIn(d.device.Attributes); n > resourceapi.ResourceSliceMaxAttributeValuesPerDevice {
		return tooMany("attributes", "attribute values", n, resourceapi.ResourceSliceMaxAttributeValuesPerDevice)
	}
	return nil
}

func tooMany(field, what string, n, limit int) *Refusal {
	return &Refusal{
		Field:   field,
		Problem: fmt.Sprintf("brings it to %d %s, more than %d, with those", n, what, limit),
		Fix:     "add less, or select other devices",
	}
}
