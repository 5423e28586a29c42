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
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// standard are the attributes that Kubernetes defines for all drivers.
var standard = []resourceapi.QualifiedName{
	deviceattribute.StandardDeviceAttributePCIeRoot,
	deviceattribute.StandardDeviceAttributePCIBusID,
	deviceattribute.StandardDeviceAttributeNUMANode,
}

// spelling is a name of an attribute as a driver publishes it.
type spelling struct {
	driver, name string
}

// publications are where an attribute is first, and on how many devices.
type publications struct {
	first   *inventory.Device
	devices int
}

// checkAttributes reports names that are easily taken for one another: the
// identifier of a standard attribute in another domain, and names of a driver
// that differ in case alone. Of these the one that most devices have is taken for right.
func (c *checker) checkAttributes() {
	all := map[spelling]*publications{}
	for d := range c.devices {
		for name := range d.Spec.Attributes {
			s := spelling{d.ID.Driver, qualified(d.ID.Driver, name)}
			if all[s] == nil {
				all[s] = &publications{first: d}
			}
			all[s].devices++
		}
	}
	folded := map[spelling]string{}
	for _, s := range slices.SortedFunc(maps.Keys(all), func(a, b spelling) int {
		return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(all[b].devices, all[a].devices), cmp.Compare(a.name, b.name))
	}) {
		if c.nonstandard(s, all[s].first) {
			continue
		}
		fold := spelling{s.driver, strings.ToLower(s.name)}
		if other := folded[fold]; other != "" {
			c.attribute(all[s].first, s.name,
				fmt.Sprintf("attribute %s of driver %s differs from %s in case alone; selectors see two attributes", s.name, s.driver, other),
				"publish one of the two spellings on all devices")
			continue
		}
		folded[fold] = s.name
	}
}

// nonstandard reports an attribute that looks like a standard one.
func (c *checker) nonstandard(s spelling, d *inventory.Device) bool {
	_, id, _ := strings.Cut(s.name, "/")
	for _, name := range standard {
		_, standardID, _ := strings.Cut(string(name), "/")
		if s.name == string(name) || !strings.EqualFold(id, standardID) {
			continue
		}
		c.attribute(d, s.name,
			fmt.Sprintf("attribute %s of driver %s is not %s; constraints across drivers do not see it", s.name, s.driver, name),
			"publish the value as "+string(name)+" (too)")
		return true
	}
	return false
}

func (c *checker) attribute(d *inventory.Device, name, problem, fix string) {
	field := name
	if _, found := d.Spec.Attributes[resourceapi.QualifiedName(name)]; !found {
		_, field, _ = strings.Cut(name, "/")
	}
	c.slice(Warning, "near-duplicate-attribute", d.Slice.Name,
		fmt.Sprintf("%s.attributes[%s]", devicePath(d.Slice, d.ID.Device), field), problem, fix)
}

// qualified is the name with its domain, which is the driver's where it has none.
func qualified(driver string, name resourceapi.QualifiedName) string {
	if strings.Contains(string(name), "/") {
		return string(name)
	}
	return driver + "/" + string(name)
}

// hardware identifies a piece of hardware as far as attributes say.
type hardware struct {
	node, attribute, value string
}

// identities are the identifiers of attributes that identify hardware whoever
// publishes it; serials do so among the hardware of one vendor only.
var (
	identities = []string{"pciBusID", "uuid"}
	serials    = []string{"serial", "serialNumber"}
)

// identityOf returns the identifier by which an attribute identifies hardware,
// empty where it does not, and whether it is a serial number.
func identityOf(name resourceapi.QualifiedName) (identity string, serial bool) {
	_, id, found := strings.Cut(string(name), "/")
	if !found {
		id = string(name)
	}
	is := func(identity string) bool { return strings.EqualFold(identity, id) }
	if at := slices.IndexFunc(identities, is); at >= 0 {
		return identities[at], false
	}
	if slices.ContainsFunc(serials, is) {
		return serials[0], true
	}
	return "", false
}

// checkHardware reports hardware that two drivers publish for the same node: it
// would be given out twice. Devices of one driver may be parts of the same card.
func (c *checker) checkHardware() {
	first := map[hardware]*inventory.Device{}
	reported := map[string]bool{}
	for d := range c.devices {
		for _, name := range slices.Sorted(maps.Keys(d.Spec.Attributes)) {
			a := d.Spec.Attributes[name]
			identity, serial := identityOf(name)
			if identity == "" || a.StringValue == nil || *a.StringValue == "" || d.Reach.NodeName == "" {
				continue
			}
			h := hardware{d.Reach.NodeName, identity, strings.ToLower(*a.StringValue)}
			other := first[h]
			if other == nil {
				first[h] = d
				continue
			}
			pair := other.ID.String() + " " + d.ID.String()
			if serial {
				pair = "serial " + pair // does not hide that the hardware is the same
			}
			if other.ID.Driver == d.ID.Driver || reported[pair] {
				continue
			}
			reported[pair] = true
			field := fmt.Sprintf("%s.attributes[%s]", devicePath(d.Slice, d.ID.Device), name)
			if serial {
				c.slice(Warning, "same-serial-number", d.Slice.Name, field,
					fmt.Sprintf("devices %s and %s on node %s have the same serial number %s: they may be the same hardware", other.ID, d.ID, h.node, explain.Value(*a.StringValue)),
					"if they are, leave the hardware to one driver; if not, publish their PCI bus IDs")
				continue
			}
			c.slice(Error, "same-hardware", d.Slice.Name, field,
				fmt.Sprintf("devices %s and %s on node %s are the same hardware, %s %s: it can be given out twice", other.ID, d.ID, h.node, h.attribute, explain.Value(*a.StringValue)),
				"leave the hardware to one driver, or exclude it in the other's configuration")
		}
	}
}
