// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/selector"
)

const (
	node     = "node-1"
	gpus     = "gpu.example.com"
	nics     = "nic.example.com"
	pcieRoot = "resource.kubernetes.io/pcieRoot"
)

var matcher = selector.New()

// triplets has GPUs with the NIC beside them, and NICs never without a GPU.
const triplets = `
apiVersion: compound.kerf.dev/v1alpha1
kind: CompoundPolicy
metadata: {name: triplets}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com, alone: true}
  - {name: nic, driver: nic.example.com}
  molecules:
  - name: pair
    share: [resource.kubernetes.io/pcieRoot]
    members: [{atom: gpu}, {atom: nic}]
  - name: triplet
    share: [resource.kubernetes.io/pcieRoot]
    members: [{atom: gpu, count: 2}, {atom: nic}]
`

func policy(t testing.TB, text string) *v1alpha1.CompoundPolicy {
	t.Helper()
	p := &v1alpha1.CompoundPolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
func number(n int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: &n}
}

// device has attributes by name.
func device(name string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: attributes}
}

func at(name, root string) resourceapi.Device {
	return device(name, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{pcieRoot: text(root), "uuid": text("uuid-" + name)})
}

// slice is the only one of a pool that has the node's name.
func slice(driver string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
		},
	}
}

// server has as many GPUs and NICs, with each NIC beside two GPUs.
func server(count int) []*resourceapi.ResourceSlice {
	var of [2][]resourceapi.Device
	for i := range count {
		of[0] = append(of[0], at(fmt.Sprintf("gpu%d", i), fmt.Sprintf("pci%d", i/2)))
		if i%2 == 0 {
			of[1] = append(of[1], at(fmt.Sprintf("nic%d", i/2), fmt.Sprintf("pci%d", i/2)))
		}
	}
	return []*resourceapi.ResourceSlice{slice(gpus, of[0]...), slice(nics, of[1]...)}
}

func decide(t testing.TB, policies string, slices ...*resourceapi.ResourceSlice) *compound.Result {
	t.Helper()
	in := compound.Input{Node: node, Slices: slices, Matcher: matcher}
	for _, text := range strings.Split(policies, "\n---\n") {
		in.Policies = append(in.Policies, policy(t, text))
	}
	return compound.Decide(in)
}

// names are what is published of molecules, each as its rule and atoms.
func names(r *compound.Result) []string {
	var all []string
	for _, m := range r.Molecules {
		of := m.Rule + ":"
		for _, a := range m.Atoms {
			of += " " + a.Device
		}
		all = append(all, of)
	}
	slices.Sort(all)
	return all
}

// notes are the report, each as reason, field and count.
func notes(r *compound.Result) []string {
	var all []string
	for _, n := range r.Report {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %d", n.Reason, n.Field, n.Count)))
	}
	return all
}

// published finds a device of the result.
func published(t testing.TB, r *compound.Result, prefix string) resourceapi.Device {
	t.Helper()
	for _, s := range r.Slices {
		for _, d := range s.Spec.Devices {
			if i := strings.LastIndexByte(d.Name, '-'); i > 0 && d.Name[:i] == prefix || d.Name == prefix {
				return d
			}
		}
	}
	t.Fatalf("nothing published is %s: %v", prefix, names(r))
	return resourceapi.Device{}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
