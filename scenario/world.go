// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for _, s := range state.Slices {
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
	for _, w := range c.words {
		if !strings.Contains(w.text, "=") {
			continue
		}
		s, err := settings([]word{w})
		if err != nil {
			return "", err
		}
		labels = append(labels, s...)
	}
	names, err := expandWords(slices.DeleteFunc(slices.Clone(c.words), func(w word) bool { return strings.Contains(w.text, "=") }))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if err := t.apply("node", newNode(name, labels)); err != nil {
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

// doClass reads "class NAME [of DRIVER] [where CEL]... [config DRIVER KEY=VALUE...]...".
func doClass(t *telling, c call) (string, error) {
	name, clauses, err := c.nameAndClauses("of", "where", "config")
	if err != nil {
		return "", err
	}
	class := &resourceapi.DeviceClass{}
	class.Name = name
	for _, cl := range clauses {
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
	if c.keyword == "of" {
		text = fmt.Sprintf("device.driver == %q", text)
	}
	spec.Selectors = append(spec.Selectors, celSelector(text))
	return nil
}

// doClaim and doTemplate read "claim NAME" and "template NAME" with a body.
func doClaim(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	return "", t.applyClaim(name, c.body)
}

func (t *telling) applyClaim(name string, body []line) error {
	spec, err := parseClaim(body)
	if err != nil {
		return err
	}
	claim := &Claim{Spec: spec}
	claim.Name = name
	return t.apply("claim", claim)
}

func doTemplate(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	template := &resourceapi.ResourceClaimTemplate{}
	template.Name = name
	if template.Spec.Spec, err = parseClaim(c.body); err != nil {
		return "", err
	}
	return "", t.apply("template", template)
}

// doPod reads "pod NAME [claim NAME...] [template NAME...] [on NODE...]". A body
// is the body of a claim of the pod's own, with the pod's name.
func doPod(t *telling, c call) (string, error) {
	name, clauses, err := c.nameAndClauses("claim", "template", "on")
	if err != nil {
		return "", err
	}
	pod := newPod(name)
	for _, cl := range clauses {
		names, err := cl.names()
		if err != nil {
			return "", err
		}
		for _, name := range names {
			switch cl.keyword {
			case "claim":
				addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(name), ResourceClaimName: &name})
			case "template":
				addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(name), ResourceClaimTemplateName: &name})
			}
		}
		if cl.keyword == "on" {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selectNodes(names)}}
		}
	}
	if len(c.body) > 0 {
		if err := t.applyClaim(pod.Name, c.body); err != nil {
			return "", err
		}
		t.own[pod.Name] = true
		addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(pod.Name), ResourceClaimName: &pod.Name})
	}
	return "", t.apply("pod", pod)
}

func newPod(name string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name = name
	now := int64(0)
	pod.Spec.TerminationGracePeriodSeconds = &now
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}
	return pod
}

// addPodClaim lets the pod and its container refer to a claim.
func addPodClaim(pod *v1.Pod, claim v1.PodResourceClaim) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
	r := &pod.Spec.Containers[0].Resources
	r.Claims = append(r.Claims, v1.ResourceClaim{Name: claim.Name})
}

// claimAlias is the pod's name for a claim; it may not contain dots.
func claimAlias(name string) string { return strings.ReplaceAll(name, ".", "-") }

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

// doFinish lets pods succeed.
func doFinish(t *telling, c call) (string, error) {
	if _, err := t.state(); err != nil {
		return "", err
	}
	names, err := expandWords(c.words)
	if err != nil {
		return "", err
	}
	for _, ref := range names {
		namespace, name := splitRef(ref)
		if err := t.backend.Finish(namespace, name); err != nil {
			return "", err
		}
	}
	return "", nil
}

// doCondition reads "condition CLAIM POOL/DEVICE TYPE=STATUS".
func doCondition(t *telling, c call) (string, error) {
	if len(c.words) != 3 {
		return "", c.misused()
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	claim, err := state.claim(c.words[0].text)
	if err != nil {
		return "", err
	}
	set, err := settings(c.words[2:])
	if err != nil {
		return "", err
	}
	claim = claim.DeepCopy()
	device, err := deviceStatus(claim, c.words[1].text)
	if err != nil {
		return "", err
	}
	for _, s := range set {
		device.Conditions = slices.DeleteFunc(device.Conditions, func(c metav1.Condition) bool { return c.Type == s.key })
		device.Conditions = append(device.Conditions, metav1.Condition{Type: s.key, Status: metav1.ConditionStatus(s.value), Reason: "Story"})
	}
	return "", t.backend.SetDevices(claim)
}

// deviceStatus returns the entry of status.devices of an allocated device, and
// makes one where there is none.
func deviceStatus(claim *Claim, ref string) (*resourceapi.AllocatedDeviceStatus, error) {
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s is not allocated", claimRef(claim))
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if resultRef(&r) != ref {
			continue
		}
		for i := range claim.Status.Devices {
			if d := &claim.Status.Devices[i]; d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device {
				return d, nil
			}
		}
		claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device})
		return &claim.Status.Devices[len(claim.Status.Devices)-1], nil
	}
	return nil, fmt.Errorf("claim %s has no device %s", claimRef(claim), ref)
}

func doSettle(t *telling, _ call) (string, error) {
	_, err := t.state()
	return "", err
}

func doRestart(t *telling, c call) (string, error) {
	if name, err := c.name(); err != nil || name != "scheduler" {
		return "", c.misused()
	}
	r, ok := t.backend.(Restarter)
	if !ok {
		return "", fmt.Errorf("%s cannot restart its scheduler", t.backend.Name())
	}
	return "", r.RestartScheduler()
}
