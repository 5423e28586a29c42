// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/inventory"
)

// attachment is an Attachment with the story's name for its claim.
func (s *State) attachmentClaim(a *Attachment) string {
	if a.Claim == "" {
		return ""
	}
	if claim := s.Claim(a.Namespace, a.Claim); claim != nil {
		return claimRef(claim)
	}
	if a.Namespace != Namespace {
		return a.Namespace + "/" + a.Claim
	}
	return a.Claim
}

// expectAttachment reads "CLAIM|DEVICE PHASE|none [DEVICE...]".
func expectAttachment(t *telling, state *State, c call) error {
	if len(c.words) < 2 {
		return c.misused()
	}
	fabrics, err := t.fabrics()
	if err != nil {
		return err
	}
	all, err := fabrics.Attachments()
	if err != nil {
		return err
	}
	subject, phase := c.words[0].text, c.words[1].text
	var devices []string
	for i := range all {
		a := &all[i]
		if a.Device != subject && state.attachmentClaim(a) != subject {
			continue
		}
		if a.Phase != phase {
			return unmet("%s: %s is %s %s", subject, a.Device, a.Phase, a.Reason)
		}
		devices = append(devices, a.Device)
	}
	if len(devices) == 0 && phase != "none" {
		return unmet("%s has no attachment", subject)
	}
	if len(c.words) == 2 {
		return nil
	}
	want, err := expandWords(c.words[2:])
	if err != nil {
		return err
	}
	return sameNames(subject+" has", want, devices)
}

// wanted reads the devices that an expectation names; the word nothing stands for
// none.
func wanted(words []word) ([]string, error) {
	if len(words) == 1 && words[0].is("nothing") {
		return nil, nil
	}
	return expandWords(words)
}

func (t *telling) shelfDevices() ([]ShelfDevice, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return nil, err
	}
	return fabrics.ShelfDevices()
}

// expectHost reads "HOST sees DEVICE...|nothing".
func expectHost(t *telling, _ *State, c call) error {
	if len(c.words) < 3 || !c.words[1].is("sees") {
		return c.misused()
	}
	want, err := wanted(c.words[2:])
	if err != nil {
		return err
	}
	got, err := t.shelfNames(func(d *ShelfDevice) bool { return d.SeenBy == c.words[0].text })
	if err != nil {
		return err
	}
	return sameNames(c.words[0].text+" sees", want, got)
}

// expectShelf reads "DEVICE...|nothing": what is attached nowhere.
func expectShelf(t *telling, _ *State, c call) error {
	want, err := wanted(c.words)
	if err != nil {
		return err
	}
	got, err := t.shelfNames(func(d *ShelfDevice) bool { return d.Host == "" })
	if err != nil {
		return err
	}
	return sameNames("on the shelf are", want, got)
}

// shelfNames are those of the shelf's devices that are wanted.
func (t *telling) shelfNames(wanted func(*ShelfDevice) bool) ([]string, error) {
	devices, err := t.shelfDevices()
	var names []string
	for i := range devices {
		if wanted(&devices[i]) {
			names = append(names, devices[i].Name)
		}
	}
	return names, err
}

// expectOffered reads "DEVICE...|N devices|nothing": what the fabric publishes.
func expectOffered(t *telling, state *State, c call) error {
	want, err := wanted(c.words)
	if err != nil {
		return err
	}
	devices, err := t.shelfDevices()
	if err != nil {
		return err
	}
	names := shelfNames(devices)
	var got []string
	for _, s := range state.ResourceSlices {
		if !inventory.FromFabric(s) {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			got = append(got, cmp.Or(names[uuidOf(d)], d.Name))
		}
	}
	if len(want) == 2 && strings.TrimSuffix(want[1], "s") == "device" {
		if want[0] != fmt.Sprint(len(got)) {
			return unmet("%d devices are offered: %s", len(got), fold(got))
		}
		return nil
	}
	return sameNames("offered are", want, got)
}

// expectModel reads "FABRIC/MODEL DEVICE...|nothing ['TEXT']...": what is not offered for
// the model, and what the fabric says about that.
func expectModel(t *telling, _ *State, c call) error {
	if len(c.words) < 2 {
		return c.misused()
	}
	fabrics, err := t.fabrics()
	if err != nil {
		return err
	}
	all, err := fabrics.Models()
	if err != nil {
		return err
	}
	names := c.words[1:]
	for len(names) > 0 && names[len(names)-1].quoted {
		names = names[:len(names)-1]
	}
	want, err := wanted(names)
	if err != nil {
		return err
	}
	var model FabricModel
	for _, m := range all {
		if m.Fabric+"/"+m.Name == c.words[0].text {
			model = m
		}
	}
	for _, text := range c.words[1+len(names):] {
		if !strings.Contains(model.Message, text.text) {
			return unmet("of model %s is said: %q", c.words[0].text, model.Message)
		}
	}
	return sameNames("not offered are", want, model.Withheld)
}

// shelfNames are the names of a shelf's devices by UUID.
func shelfNames(devices []ShelfDevice) map[string]string {
	names := make(map[string]string, len(devices))
	for _, d := range devices {
		names[strings.ToLower(d.UUID)] = d.Name
	}
	return names
}

// holding returns what claims have, with the shelf's names for devices that have
// arrived at a node.
func (t *telling) holding(state *State, claims []*Claim) ([]string, error) {
	devices, err := t.shelfDevices()
	if err != nil {
		return nil, err
	}
	names := shelfNames(devices)
	arrived := map[string]string{}
	for _, s := range state.ResourceSlices {
		if s.Spec.NodeName == nil {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if name := names[uuidOf(d)]; name != "" {
				arrived[s.Spec.Pool.Name+"/"+d.Name] = name
			}
		}
	}
	var held []string
	for _, ref := range devicesOf(claims) {
		held = append(held, cmp.Or(arrived[ref], ref))
	}
	return held, nil
}

func doAttachments(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	all, err := fabrics.Attachments()
	if err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b Attachment) int { return cmp.Compare(a.Device, b.Device) })
	var rows table
	rows.add("DEVICE", "NODE", "CLAIM", "PHASE", "TARGET", "REASON")
	for i := range all {
		a := &all[i]
		rows.add(a.Device, a.Node, state.attachmentClaim(a), a.Phase, a.Target, a.Reason)
	}
	return rows.String(), nil
}
