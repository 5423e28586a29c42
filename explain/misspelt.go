// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// readProperty finds where a CEL selector reads an attribute or a capacity.
var readProperty = regexp.MustCompile(`device\.(attributes|capacity)\[\s*["']([^"']*)["']\s*\]\.(\w+)`)

// readsOf returns what kind of property a selector reads by that name, and of which
// domain; both are empty where that is not clear.
func readsOf(expression, id string) (kind, domain string) {
	for _, m := range readProperty.FindAllStringSubmatch(expression, -1) {
		if m[3] != id {
			continue
		}
		if kind != "" && (kind != m[1] || domain != m[2]) {
			return "", ""
		}
		kind, domain = m[1], m[2]
	}
	return kind, domain
}

// elsewhere says under which kind, domain or spelling a device publishes what a
// selector missed.
func elsewhere(d *inventory.Device, expression, id string) []string {
	kind, domain := readsOf(expression, id)
	published := map[string][]string{
		"attributes": fullNames(d, maps.Keys(d.Spec.Attributes)),
		"capacity":   fullNames(d, maps.Keys(d.Spec.Capacity)),
	}
	singular := map[string]string{"attributes": "attribute", "capacity": "capacity"}
	var texts []string
	for _, as := range []string{"attributes", "capacity"} {
		for _, name := range published[as] {
			of, found, _ := strings.Cut(name, "/")
			switch {
			case !strings.EqualFold(found, id):
			case found != id:
				texts = append(texts, fmt.Sprintf("a selector reads %s, %s publishes %s: case matters", id, d.ID.Device, name))
			case kind != "" && kind != as:
				texts = append(texts, fmt.Sprintf("a selector reads %s as %s, %s publishes %s as %s", id, singular[kind], d.ID.Device, name, singular[as]))
			case of != domain:
				texts = append(texts, fmt.Sprintf("a selector reads %s in another domain, %s publishes %s", id, d.ID.Device, name))
			}
		}
	}
	return texts
}

// fullNames returns names of a device with their domains, sorted.
func fullNames(d *inventory.Device, names iter.Seq[resourceapi.QualifiedName]) []string {
	var full []string
	for name := range names {
		full = append(full, string(inventory.FullName(d.ID.Driver, name)))
	}
	slices.Sort(full)
	return slices.Compact(full)
}

// comparedText finds in a CEL selector what an attribute is compared with.
var (
	comparedText = regexp.MustCompile(`\.(\w+)\s*==\s*["']([^"']+)["']`)
	comparedInt  = regexp.MustCompile(`\.(\w+)\s*>=?\s*(\d+)\b`)
)

// almostEqual finds devices whose attribute differs in case from the text that a
// selector compares it with, or is a little below the number.
func almostEqual(devices []*inventory.Device, expression string) []string {
	var texts []string
	for _, m := range comparedText.FindAllStringSubmatch(expression, -1) {
		texts = append(texts, having(devices, m[1], m[2], func(a *resourceapi.DeviceAttribute) (string, bool) {
			if a.StringValue == nil || *a.StringValue == m[2] || !strings.EqualFold(*a.StringValue, m[2]) {
				return "", false
			}
			return *a.StringValue, true
		})...)
	}
	for _, m := range comparedInt.FindAllStringSubmatch(expression, -1) {
		wanted, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			continue // no number that an attribute can have
		}
		texts = append(texts, having(devices, m[1], m[2], func(a *resourceapi.DeviceAttribute) (string, bool) {
			if a.IntValue == nil || *a.IntValue >= wanted || float64(*a.IntValue)*100 < float64(wanted)*almost {
				return "", false
			}
			return strconv.FormatInt(*a.IntValue, 10), true
		})...)
	}
	return texts
}

// having lists the devices that have a value which is almost the one wanted.
func having(devices []*inventory.Device, id, wanted string, value func(*resourceapi.DeviceAttribute) (string, bool)) []string {
	with := map[string][]string{}
	for _, d := range devices {
		for name, a := range d.Spec.Attributes {
			if v, is := value(&a); is && short(string(name)) == id {
				with[v] = append(with[v], d.ID.Device)
			}
		}
	}
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(with)) {
		texts = append(texts, fmt.Sprintf("%s %s %s %s, %s is asked for", List(with[v]), Verb(len(with[v]), "has", "have"), id, Value(v), Value(wanted)))
	}
	return texts
}

// misspelt finds devices without a capacity that is requested, which have one of
// almost that name.
func misspelt(devices []*inventory.Device, wanted resourceapi.QualifiedName) []string {
	with := map[string][]string{}
	for _, d := range devices {
		if _, _, found := inventory.Named(d.Spec.Capacity, d.ID.Driver, wanted); found {
			continue
		}
		for name := range d.Spec.Capacity {
			if short(string(name)) == short(string(wanted)) || oneSlip(strings.ToLower(short(string(name))), strings.ToLower(short(string(wanted)))) {
				with[string(name)] = append(with[string(name)], d.ID.Device)
			}
		}
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(with)) {
		texts = append(texts, fmt.Sprintf("%s %s capacity %s, the request names %s", List(with[name]), Verb(len(with[name]), "has", "have"), name, wanted))
	}
	return texts
}

// oneSlip reports whether names are equal but for one letter that is missing, wrong
// or one of two that changed places.
func oneSlip(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case a == b:
		return true
	case len(a) == len(b):
		return a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	}
	return a[i:] == b[i+1:]
}
