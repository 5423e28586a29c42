// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// deviceKeywords begin the clauses of a device line.
var deviceKeywords = []string{"capacity", "uses", "taint", "on", "everywhere", "shared", "binds", "until", "unless"}

// parseDevices reads what follows the word device in a body line:
//
//	NAME... [ATTRIBUTE=VALUE]... [CLAUSE]...
func parseDevices(words []word) ([]resourceapi.Device, error) {
	lead, clauses := cutClauses(words, deviceKeywords...)
	var named []word
	for len(lead) > 0 && !strings.Contains(lead[0].text, "=") {
		named, lead = append(named, lead[0]), lead[1:]
	}
	names, err := expandWords(named)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("device: want a name")
	}
	var d resourceapi.Device
	if d.Attributes, err = parseAttributes(lead); err != nil {
		return nil, err
	}
	for _, c := range clauses {
		if err := addToDevice(&d, c); err != nil {
			return nil, fmt.Errorf("device %s: %w", names[0], err)
		}
	}
	devices := make([]resourceapi.Device, len(names))
	for i, name := range names {
		d.DeepCopyInto(&devices[i])
		devices[i].Name = name
	}
	return devices, nil
}

func addToDevice(d *resourceapi.Device, c clause) (err error) {
	yes := true
	switch c.keyword {
	case "capacity":
		return addCapacity(d, c.words)
	case "uses":
		return addConsumption(d, c.words)
	case "taint":
		return addTaint(d, c)
	case "on", "everywhere":
		var r reach
		if r, err = parseReach(c); err == nil {
			d.NodeName, d.NodeSelector, d.AllNodes = r.nodeName, r.selector, r.allNodes
		}
	case "shared":
		d.AllowMultipleAllocations = &yes
	case "binds":
		d.BindsToNode = &yes
	case "until":
		d.BindingConditions, err = c.names()
	case "unless":
		d.BindingFailureConditions, err = c.names()
	}
	return err
}

func addCapacity(d *resourceapi.Device, words []word) error {
	amounts, err := quantities(words)
	if err != nil {
		return err
	}
	if d.Capacity == nil {
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	}
	for name, q := range amounts {
		d.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: q}
	}
	return nil
}

// addConsumption reads "SET COUNTER=AMOUNT... [groups GROUP...]".
func addConsumption(d *resourceapi.Device, words []word) error {
	words, clauses := cutClauses(words, "groups")
	if len(words) < 2 {
		return fmt.Errorf("uses: want: SET COUNTER=AMOUNT [COUNTER=AMOUNT]")
	}
	counters, err := parseCounters(words[1:])
	if err != nil {
		return err
	}
	consumes := resourceapi.DeviceCounterConsumption{CounterSet: words[0].text, Counters: counters}
	for _, c := range clauses {
		if consumes.CompatibilityGroups, err = c.names(); err != nil {
			return err
		}
	}
	d.ConsumesCounters = append(d.ConsumesCounters, consumes)
	return nil
}

func addTaint(d *resourceapi.Device, c clause) error {
	text, err := c.one()
	if err != nil {
		return err
	}
	taint, err := parseTaint(text)
	if err != nil {
		return err
	}
	d.Taints = append(d.Taints, taint)
	return nil
}

// parseTaint reads KEY[=VALUE]:EFFECT.
func parseTaint(text string) (resourceapi.DeviceTaint, error) {
	name, effect, found := strings.Cut(text, ":")
	if !found || name == "" || effect == "" {
		return resourceapi.DeviceTaint{}, fmt.Errorf("taint %q: want KEY[=VALUE]:EFFECT", text)
	}
	key, value, _ := strings.Cut(name, "=")
	return resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffect(effect)}, nil
}

// parseCounters reads COUNTER=AMOUNT words.
func parseCounters(words []word) (map[string]resourceapi.Counter, error) {
	amounts, err := quantities(words)
	if err != nil {
		return nil, err
	}
	counters := make(map[string]resourceapi.Counter, len(amounts))
	for name, q := range amounts {
		counters[name] = resourceapi.Counter{Value: q}
	}
	return counters, nil
}

// parseAttributes reads ATTRIBUTE=VALUE words, where VALUE is an integer, true,
// false, version:1.2.3, a list [1,2], or else a string. Quotes make a string.
func parseAttributes(words []word) (map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, error) {
	all, err := settings(words)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	attributes := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(all))
	for _, s := range all {
		attributes[resourceapi.QualifiedName(s.key)] = parseAttribute(s)
	}
	return attributes, nil
}

func parseAttribute(s setting) resourceapi.DeviceAttribute {
	if list, ok := strings.CutPrefix(s.value, "["); ok && !s.quoted && strings.HasSuffix(list, "]") {
		return parseListAttribute(strings.Split(strings.TrimSuffix(list, "]"), ","))
	}
	if v, ok := strings.CutPrefix(s.value, "version:"); ok && !s.quoted {
		return resourceapi.DeviceAttribute{VersionValue: &v}
	}
	if n, err := strconv.ParseInt(s.value, 10, 64); err == nil && !s.quoted {
		return resourceapi.DeviceAttribute{IntValue: &n}
	}
	if b := s.value == "true"; !s.quoted && (b || s.value == "false") {
		return resourceapi.DeviceAttribute{BoolValue: &b}
	}
	return resourceapi.DeviceAttribute{StringValue: &s.value}
}

// parseListAttribute makes a list of the type of its values; values of several
// types are strings.
func parseListAttribute(values []string) resourceapi.DeviceAttribute {
	var list resourceapi.DeviceAttribute
	for _, text := range values {
		switch v := parseAttribute(setting{value: text}); {
		case v.IntValue != nil:
			list.IntValues = append(list.IntValues, *v.IntValue)
		case v.BoolValue != nil:
			list.BoolValues = append(list.BoolValues, *v.BoolValue)
		case v.VersionValue != nil:
			list.VersionValues = append(list.VersionValues, *v.VersionValue)
		}
	}
	if len(list.IntValues) == len(values) || len(list.BoolValues) == len(values) || len(list.VersionValues) == len(values) {
		return list
	}
	return resourceapi.DeviceAttribute{StringValues: values}
}

// reach is the node selection of a slice or device.
type reach struct {
	nodeName *string
	selector *v1.NodeSelector
	allNodes *bool
}

// parseReach reads "on NODE", "on NODE NODE...", "on LABEL=VALUE..." or
// "everywhere".
func parseReach(c clause) (reach, error) {
	if c.keyword == "everywhere" {
		yes := true
		return reach{allNodes: &yes}, nil
	}
	names, err := c.names()
	if err != nil {
		return reach{}, err
	}
	if len(names) == 1 && !strings.Contains(names[0], "=") {
		return reach{nodeName: &names[0]}, nil
	}
	return reach{selector: selectNodes(names)}, nil
}

// selectNodes selects nodes by their host names, or by labels KEY=VALUE.
func selectNodes(names []string) *v1.NodeSelector {
	var term v1.NodeSelectorTerm
	var hosts []string
	for _, name := range names {
		key, value, isLabel := strings.Cut(name, "=")
		if !isLabel {
			hosts = append(hosts, name)
			continue
		}
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}})
	}
	if len(hosts) > 0 {
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: hosts})
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
}

// requiredCapacity reads NAME=AMOUNT words of a request.
func requiredCapacity(words []word) (*resourceapi.CapacityRequirements, error) {
	amounts, err := quantities(words)
	if err != nil {
		return nil, err
	}
	requests := make(map[resourceapi.QualifiedName]resource.Quantity, len(amounts))
	for name, q := range amounts {
		requests[resourceapi.QualifiedName(name)] = q
	}
	return &resourceapi.CapacityRequirements{Requests: requests}, nil
}
