// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// nearMisses finds attributes under another name than the one asked for and
// capacities that are almost enough; new ones are those that the conflict does not
// tell of.
func (t *teller) nearMisses(onlyNew bool) []string {
	var found []string
	atFault := t.reportsAtFault()
	atFault = atFault[:min(len(atFault), maxMissed)]
	asked := t.attributesAsked()
	add := func(texts ...string) {
		for _, text := range texts {
			if !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	for _, attribute := range asked[:min(len(asked), maxMissed)] {
		for _, r := range atFault {
			add(otherNames(r.Candidates[:min(len(r.Candidates), maxMissed)], attribute)...)
		}
	}
	for _, r := range atFault {
		for i := range r.SelectorErrors {
			add(t.misnamed(&r.SelectorErrors[i])...)
		}
		add(t.almostEnough(r, onlyNew)...)
	}
	return found
}

// maxMissed bounds the requests, the attributes and the devices of each request that are
// looked at: nobody reads more, and a claim may have very many.
const maxMissed = 32

// attributesAsked are the attributes of the constraints that devices must have.
func (t *teller) attributesAsked() []resourceapi.FullyQualifiedName {
	var found []resourceapi.FullyQualifiedName
	known := map[resourceapi.FullyQualifiedName]bool{"": true}
	add := func(name *resourceapi.FullyQualifiedName) {
		if name != nil && !known[*name] {
			known[*name] = true
			found = append(found, *name)
		}
	}
	add(&t.Conflict.Attribute)
	for _, claim := range t.claimsAtFault() {
		for i := range claim.Spec.Devices.Constraints {
			add(claim.Spec.Devices.Constraints[i].MatchAttribute)
			add(claim.Spec.Devices.Constraints[i].DistinctAttribute)
		}
	}
	return found
}

// otherNames finds devices that have the attribute in another domain only.
func otherNames(devices []*inventory.Device, wanted resourceapi.FullyQualifiedName) []string {
	type name struct{ driver, published string }
	with := map[name][]string{}
	var order []name
	for _, d := range devices {
		if hasAttribute(d, wanted) {
			continue
		}
		for _, published := range namesOf(d, short(string(wanted))) {
			n := name{d.ID.Driver, published}
			if with[n] == nil {
				order = append(order, n)
			}
			with[n] = append(with[n], d.ID.Device)
		}
	}
	var texts []string
	for _, n := range order {
		texts = append(texts, fmt.Sprintf("driver %s publishes %s (%s), the constraint asks for %s", n.driver, n.published, List(with[n]), wanted))
	}
	return texts
}

// hasAttribute looks an attribute up by its full name; a driver may leave out
// its own domain.
func hasAttribute(d *inventory.Device, name resourceapi.FullyQualifiedName) bool {
	_, _, found := inventory.Named(d.Spec.Attributes, d.ID.Driver, resourceapi.QualifiedName(name))
	return found
}

// namesOf returns the full names under which a device has an attribute or
// capacity with that identifier.
func namesOf(d *inventory.Device, id string) []string {
	names := slices.Concat(fullNames(d, maps.Keys(d.Spec.Attributes)), fullNames(d, maps.Keys(d.Spec.Capacity)))
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return short(name) != id })
}

// misnamed looks for what a selector missed elsewhere on the device.
func (o *Options) misnamed(e *alloc.SelectorError) []string {
	missing, d := missingKey(e.Err), o.device(e.Device)
	if missing == "" || d == nil {
		return nil
	}
	return elsewhere(d, e.Expression, missing)
}

// comparedQuantity finds in a CEL selector what a capacity is compared with.
var comparedQuantity = regexp.MustCompile(`\.(\w+)\.(?:compareTo|isGreaterThan)\(\s*quantity\(\s*["']([^"']+)["']\s*\)`)

// almost is the part of a quantity, in percent, that counts as a near miss.
const almost = 90

// almostEnough finds devices whose capacity is a little below what the request
// asks for, in a selector or as capacity.
func (o *Options) almostEnough(r *alloc.RequestReport, onlyNew bool) []string {
	asked, ok := o.asked(r.Claim, r.Request)
	if !ok {
		return nil
	}
	var texts []string
	if asked.Capacity != nil {
		for _, name := range slices.Sorted(maps.Keys(asked.Capacity.Requests)) {
			dropped := r.Dropped[alloc.StageCapacity]
			texts = append(texts, below(dropped, short(string(name)), asked.Capacity.Requests[name])...)
			texts = append(texts, misspelt(dropped, name)...)
		}
	}
	if onlyNew && len(r.Unmet) > 0 {
		return texts
	}
	for _, s := range asked.Selectors {
		if s.CEL == nil {
			continue
		}
		texts = append(texts, almostEqual(r.Unselected, s.CEL.Expression)...)
		for _, m := range comparedQuantity.FindAllStringSubmatch(s.CEL.Expression, -1) {
			if wanted, err := inventory.ParseQuantity(m[2]); err == nil {
				texts = append(texts, below(r.Unselected, m[1], wanted)...)
			}
		}
	}
	return texts
}

// below lists the devices that have almost as much of a capacity as is wanted.
func below(devices []*inventory.Device, id string, wanted resource.Quantity) []string {
	with := map[string][]string{}
	var order []string
	for _, d := range devices {
		var names []resourceapi.QualifiedName
		for name := range d.Spec.Capacity {
			if short(string(name)) == id {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			c := d.Spec.Capacity[name]
			ratio := inventory.AmountOf(c.Value).Ratio(inventory.AmountOf(wanted))
			if ratio >= 1 || ratio*100 < almost {
				continue
			}
			has := inventory.QuantityText(c.Value)
			if with[has] == nil {
				order = append(order, has)
			}
			with[has] = append(with[has], d.ID.Device)
		}
	}
	var texts []string
	for _, has := range order {
		names := with[has]
		texts = append(texts, fmt.Sprintf("%s %s %s %s, %s is asked for", List(names), Verb(len(names), "has", "have"), id, has, inventory.QuantityText(wanted)))
	}
	return texts
}
