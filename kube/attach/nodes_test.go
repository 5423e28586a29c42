// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// TestMachinesOfNodes maps one node in each way that a Fabric can say.
func TestMachinesOfNodes(t *testing.T) {
	machines := []fabric.Machine{
		{Ref: "/systems/1", Name: "one", UUID: "AB-1", SerialNumber: "s1", HostName: "h1"},
		{Ref: "/systems/2", Name: "two", UUID: "AB-2", SerialNumber: "s2", HostName: "h2"},
		{Ref: "/systems/3"}, // nothing is known of it
	}
	labelled := func(property v1alpha1.MachineProperty) v1alpha1.MachineMapping {
		return v1alpha1.MachineMapping{Label: &v1alpha1.MachineLabel{Key: machine, Property: property}}
	}
	for _, tc := range []struct {
		name    string
		mapping v1alpha1.MachineMapping
		label   string
		uuid    string
		want    int // nodes that are machines
	}{
		{"name", labelled(v1alpha1.MachineName), "two", "", 1},
		{"serial number", labelled(v1alpha1.MachineSerialNumber), "s2", "", 1},
		{"host name", labelled(v1alpha1.MachineHostName), "h2", "", 1},
		{"another property", labelled(v1alpha1.MachineHostName), "two", "", 0},
		{"no label", labelled(v1alpha1.MachineHostName), "", "", 0},
		{"UUID", v1alpha1.MachineMapping{SystemUUID: &v1alpha1.SystemUUID{}}, "", "ab-2", 1},
		{"no UUID", v1alpha1.MachineMapping{SystemUUID: &v1alpha1.SystemUUID{}}, "", "", 0},
		{"list", v1alpha1.MachineMapping{Nodes: []v1alpha1.NodeMachine{{Node: "n", Machine: "/systems/2"}}}, "", "", 1},
		{"not listed", v1alpha1.MachineMapping{Nodes: []v1alpha1.NodeMachine{{Node: "m", Machine: "/systems/2"}}}, "", "", 0},
		{"no such machine", v1alpha1.MachineMapping{Nodes: []v1alpha1.NodeMachine{{Node: "n", Machine: "/systems/9"}}}, "", "", 0},
	} {
		n, planner := newNodes(tc.mapping), fabric.New(fabric.Policy{Fabric: "shelf"})
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}}
		if tc.label != "" {
			o.Labels[machine] = tc.label
		}
		o.Status.NodeInfo.SystemUUID = tc.uuid
		n.set(planner, o)
		n.inventoried(planner, machines)
		if got := n.mapped(); got != tc.want {
			t.Errorf("%s: %d nodes are machines, want %d", tc.name, got, tc.want)
		}
		if n.set(planner, o) {
			t.Errorf("%s: the same node is taken for a change", tc.name)
		}
	}
}
