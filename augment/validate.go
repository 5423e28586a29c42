// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validate finds what would select nothing, add nothing, or be refused by the API
// server.
func validate(d Document) []fault {
	v := &validator{driver: d.Driver}
	if d.Kind != Kind {
		v.failf("kind", "write "+Kind, "is %q", d.Kind)
	}
	if d.APIVersion != APIVersion {
		v.failf("apiVersion", "write "+APIVersion, "is %q", d.APIVersion)
	}
	v.domain("driver", d.Driver)
	if len(d.Rules) == 0 {
		v.failf("rules", "write at least one rule", "is empty")
	}
	for i, rule := range d.Rules {
		field := fmt.Sprintf("rules[%d]", i)
		v.selector(field+".select", rule.Select)
		v.addition(field+".add", rule.Add)
	}
	return v.faults
}

type validator struct {
	driver string
	faults []fault
}

func (v *validator) failf(field, fix, problem string, args ...any) {
	v.faults = append(v.faults, fault{field: field, problem: fmt.Sprintf(problem, args...), fix: fix})
}

// complain passes on what Kubernetes' own checks have to say.
func (v *validator) complain(field, value string, messages []string) {
	if len(messages) > 0 {
		v.failf(field, strings.Join(messages, "; "), "is %q", value)
	}
}

// domain checks the name of a driver, which is also the domain of attributes.
func (v *validator) domain(field, name string) {
	if len(name) > resourceapi.DriverNameMaxLength {
		v.failf(field, fmt.Sprintf("use at most %d", resourceapi.DriverNameMaxLength), "has %d characters", len(name))
		return
	}
	v.complain(field, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
}

func (v *validator) selector(field string, s Selector) {
	if s.Pool == "" && s.Name == "" && len(s.Attributes) == 0 {
		v.failf(field, `give pool, name or attributes; name: "*" selects all devices`, "selects nothing")
	}
	v.pattern(field+".pool", s.Pool, func(name string) (messages []string) {
		for part := range strings.SplitSeq(name, "/") {
			messages = append(messages, validation.IsDNS1123Subdomain(part)...)
		}
		return messages
	})
	v.pattern(field+".name", s.Name, validation.IsDNS1123Label)
	v.attributes(field+".attributes", s.Attributes)
	for name, a := range s.Attributes {
		if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
			v.failf(fmt.Sprintf("%s.attributes[%s]", field, name), "select by one value that the list includes", "is a list")
		}
	}
}

// pattern checks a pattern's syntax, and for one without wildcards that there can
// be such a name.
func (v *validator) pattern(field, pattern string, check func(name string) []string) {
	if pattern == "" {
		return
	}
	if _, err := path.Match(pattern, ""); err != nil {
		v.failf(field, `close what [ opens, and write \ only before another character`, "is %q, no pattern", pattern)
	} else if !strings.ContainsAny(pattern, `*?[\`) {
		v.complain(field, pattern, check(pattern))
	}
}

func (v *validator) addition(field string, a Addition) {
	if len(a.Attributes) == 0 && len(a.Taints) == 0 {
		v.failf(field, "give attributes or taints", "adds nothing")
	}
	v.attributes(field+".attributes", a.Attributes)
	if n := len(a.Attributes); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		v.failf(field+".attributes", fmt.Sprintf("a device has at most %d", resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice), "are %d", n)
	}
	if n := valuesIn(a.Attributes); n > resourceapi.ResourceSliceMaxAttributeValuesPerDevice {
		v.failf(field+".attributes", fmt.Sprintf("a device has at most %d", resourceapi.ResourceSliceMaxAttributeValuesPerDevice), "have %d values", n)
	}
	if n := len(a.Taints); n > resourceapi.DeviceTaintsMaxLength {
		v.failf(field+".taints", fmt.Sprintf("a device has at most %d", resourceapi.DeviceTaintsMaxLength), "are %d", n)
	}
	for i, t := range a.Taints {
		v.taint(fmt.Sprintf("%s.taints[%d]", field, i), t)
		if slices.ContainsFunc(a.Taints[:i], func(other resourceapi.DeviceTaint) bool { return sameTaint(t, other) }) {
			v.failf(fmt.Sprintf("%s.taints[%d]", field, i), "remove one", "is given twice")
		}
	}
}

func (v *validator) taint(field string, t resourceapi.DeviceTaint) {
	v.complain(field+".key", t.Key, validation.IsQualifiedName(t.Key))
	v.complain(field+".value", t.Value, validation.IsValidLabelValue(t.Value))
	switch t.Effect {
	case resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute:
	default:
		v.failf(field+".effect", "write None, NoSchedule or NoExecute", "is %q", t.Effect)
	}
}

func (v *validator) attributes(field string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	seen := map[resourceapi.QualifiedName]resourceapi.QualifiedName{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		at := fmt.Sprintf("%s[%s]", field, name)
		v.attributeName(at, string(name))
		v.attribute(at, attributes[name])
		if other, twice := seen[qualify(name, v.driver)]; twice {
			v.failf(at, "remove one", "is the same attribute as %s", other)
		}
		seen[qualify(name, v.driver)] = name
	}
}

func (v *validator) attributeName(field, name string) {
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		id = name
	} else {
		v.domain(field, domain)
	}
	if len(id) > resourceapi.DeviceMaxIDLength {
		v.failf(field, fmt.Sprintf("use at most %d behind the domain", resourceapi.DeviceMaxIDLength), "has a name of %d characters", len(id))
	}
	v.complain(field, name, validation.IsCIdentifier(id))
}

func (v *validator) attribute(field string, a resourceapi.DeviceAttribute) {
	given := 0
	for _, is := range []bool{
		a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if is {
			given++
		}
	}
	if given != 1 {
		v.failf(field, "give exactly one of int, bool, string, version, ints, bools, strings, versions", "has %d values", given)
	} else if valuesOf(a) == 0 {
		v.failf(field, "give at least one value", "is an empty list")
	}
	if a.StringValue != nil {
		v.text(field+".string", *a.StringValue)
	}
	if a.VersionValue != nil {
		v.version(field+".version", *a.VersionValue)
	}
	for i, s := range a.StringValues {
		v.text(fmt.Sprintf("%s.strings[%d]", field, i), s)
	}
	for i, s := range a.VersionValues {
		v.version(fmt.Sprintf("%s.versions[%d]", field, i), s)
	}
}

func (v *validator) text(field, value string) {
	if len(value) > resourceapi.DeviceAttributeMaxValueLength {
		v.failf(field, fmt.Sprintf("use at most %d", resourceapi.DeviceAttributeMaxValueLength), "has %d bytes", len(value))
	}
	if !utf8.ValidString(value) {
		v.failf(field, "write UTF-8", "is not UTF-8")
	}
}

func (v *validator) version(field, value string) {
	v.text(field, value)
	if _, err := semver.Parse(value); err != nil {
		v.failf(field, "write a version as semver.org has it, such as 1.2.3", "is %q", value)
	}
}

// valuesOf counts as the API does: each value of a list counts.
func valuesOf(a resourceapi.DeviceAttribute) int {
	if a.IntValues == nil && a.BoolValues == nil && a.StringValues == nil && a.VersionValues == nil {
		return 1
	}
	return len(a.IntValues) + len(a.BoolValues) + len(a.StringValues) + len(a.VersionValues)
}

func valuesIn(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) int {
	n := 0
	for _, a := range attributes {
		n += valuesOf(a)
	}
	return n
}
