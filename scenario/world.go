// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// apply wants an object of a kind that stories know applied.
func (t *telling) apply(word string, o Object) error {
	k, err := kindByWord(word)
	if err != nil {
		return err
	}
	t.changes = append(t.changes, complete(k, o))
	return nil
}

// delete deletes an object that a story calls ref.
func (t *telling) delete(word, ref string) error {
	k, err := kindByWord(word)
	if err != nil {
		return err
	}
	if !k.Namespaced {
		return t.backend.Delete(k, "", ref)
	}
	namespace, name := splitRef(ref)
	return t.backend.Delete(k, namespace, name)
}

func doApply(t *telling, c call) (string, error) {
	for _, w := range c.words {
		text, err := t.story.file(w.text)
		if err != nil {
			return "", err
		}
		objects, err := Decode(w.text, text)
		if err != nil {
			return "", err
		}
		t.changes = append(t.changes, objects...)
	}
	return "", nil
}

// doDelete deletes objects, or all slices of a pool. A pod takes the claim with
// it that the pod verb made for it.
func doDelete(t *telling, c call) (string, error) {
	if len(c.words) < 2 {
		return "", c.misused()
	}
	names, err := expandWords(c.words[1:])
	if err != nil {
		return "", err
	}
	word := c.words[0].text
	for _, name := range names {
		if word == "pool" {
			err = t.deletePool(name)
		} else {
			err = t.delete(word, name)
		}
		if err == nil && word == "pod" && t.own[name] {
			delete(t.own, name)
			err = t.delete("claim", name)
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

func (t *telling) deletePool(name string) error {
	state, err := t.backend.State()
	if err != nil {
		return err
	}
	found := false
	for _, s := range state.ResourceSlices {
		if s.Spec.Pool.Name == name {
			found = true
			if err := t.delete("slice", s.Name); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("no pool %s", name)
	}
	return nil
}

// doNode makes nodes. They have nothing but names and labels; a backend in which
// nodes are more makes them ready and gives them room.
func doNode(t *telling, c call) (string, error) {
	var labels []setting
	words, clauses := cutClauses(c.words, "offers")
	for _, w := range words {
		if !strings.Contains(w.text, "=") {
			continue
		}
		s, err := settings([]word{w})
		if err != nil {
			return "", err
		}
		labels = append(labels, s...)
	}
	names, err := expandWords(slices.DeleteFunc(slices.Clone(words), func(w word) bool { return strings.Contains(w.text, "=") }))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		node := newNode(name, labels)
		for _, cl := range clauses {
			if node.Status.Allocatable, err = resourceList(cl); err != nil {
				return "", err
			}
		}
		if err := t.apply("node", node); err != nil {
			return "", err
		}
	}
	return "", nil
}

func newNode(name string, labels []setting) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	n.Labels = map[string]string{v1.LabelHostname: name}
	for _, l := range labels {
		n.Labels[l.key] = l.value
	}
	return n
}

// doClass reads "class NAME [of DRIVER] [where CEL]... [serves RESOURCE] [config DRIVER KEY=VALUE...]...".
func doClass(t *telling, c call) (string, error) {
	name, clauses, err := c.nameAndClauses("of", "where", "serves", "config")
	if err != nil {
		return "", err
	}
	class := &resourceapi.DeviceClass{}
	class.Name = name
	for _, cl := range clauses {
		if cl.keyword == "serves" && class.Spec.ExtendedResourceName != nil {
			return "", fmt.Errorf("serves: a class has one extended resource, and %s has %s", name, *class.Spec.ExtendedResourceName)
		}
		if err := addToClass(&class.Spec, cl); err != nil {
			return "", err
		}
	}
	return "", t.apply("class", class)
}

func addToClass(spec *resourceapi.DeviceClassSpec, c clause) error {
	if c.keyword == "config" {
		config, err := parseConfig(c.words)
		spec.Config = append(spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: config})
		return err
	}
	text, err := c.one()
	if err != nil {
		return err
	}
	if c.keyword == "serves" {
		spec.ExtendedResourceName = &text
		return nil
	}
	if c.keyword == "of" {
		text = fmt.Sprintf("device.driver == %q", text)
	}
	spec.Selectors = append(spec.Selectors, celSelector(text))
	return nil
}

// doTaint reads "taint NAME KEY[=VALUE]:EFFECT [driver NAME] [pool NAME] [device NAME]".
func doTaint(t *telling, c call) (string, error) {
	lead, clauses := cutClauses(c.words, "driver", "pool", "device")
	if len(lead) != 2 {
		return "", c.misused()
	}
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = lead[0].text
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
	var err error
	if rule.Spec.Taint, err = parseTaint(lead[1].text); err != nil {
		return "", err
	}
	for _, cl := range clauses {
		name, err := cl.one()
		if err != nil {
			return "", err
		}
		switch cl.keyword {
		case "driver":
			rule.Spec.DeviceSelector.Driver = &name
		case "pool":
			rule.Spec.DeviceSelector.Pool = &name
		case "device":
			rule.Spec.DeviceSelector.Device = &name
		}
	}
	return "", t.apply("taint", rule)
}
