// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// nodes knows which machine of the fabric each node is.
type nodes struct {
	mapping v1alpha1.MachineMapping
	known   map[string]nodeFacts
	// machines are by the property that the mapping compares, nil before the first
	// inventory.
	machines map[string]fabric.MachineRef
	// assumed are the machines that attachments name, for the time before the first
	// inventory.
	assumed map[string]fabric.MachineRef
}

// nodeFacts is what the mapping compares, and the label that slices select the
// node by.
type nodeFacts struct{ property, label string }

func newNodes(mapping v1alpha1.MachineMapping) *nodes {
	return &nodes{mapping: mapping, known: map[string]nodeFacts{}, assumed: map[string]fabric.MachineRef{}}
}

// labelKey is the label by which slices select nodes.
func (n *nodes) labelKey() string {
	if n.mapping.Label != nil {
		return n.mapping.Label.Key
	}
	return corev1.LabelHostname
}

// set takes a node in and tells whether what matters of it has changed.
func (n *nodes) set(planner *fabric.Planner, o *corev1.Node) bool {
	facts := nodeFacts{label: o.Labels[n.labelKey()]}
	switch {
	case n.mapping.Label != nil:
		facts.property = facts.label
	case n.mapping.SystemUUID != nil:
		facts.property = strings.ToLower(o.Status.NodeInfo.SystemUUID)
	default:
		i := slices.IndexFunc(n.mapping.Nodes, func(m v1alpha1.NodeMachine) bool { return m.Node == o.Name })
		if i >= 0 {
			facts.property = n.mapping.Nodes[i].Machine
		}
	}
	old, known := n.known[o.Name]
	n.known[o.Name] = facts
	n.tell(planner, o.Name)
	return !known || old != facts
}

func (n *nodes) forget(planner *fabric.Planner, name string) {
	delete(n.known, name)
	planner.ForgetNode(name)
}

// assume has a node be the machine that an attachment says, until the inventory is
// known: a deadline must not wait for a manager that is down.
func (n *nodes) assume(planner *fabric.Planner, a *fabric.Attachment) {
	if n.machines != nil {
		return
	}
	n.assumed[a.Spec.Node] = a.Spec.Machine
	if _, known := n.known[a.Spec.Node]; known {
		n.tell(planner, a.Spec.Node)
	}
}

// inventoried compares all nodes with the machines of an inventory.
func (n *nodes) inventoried(planner *fabric.Planner, machines []fabric.Machine) {
	n.machines = make(map[string]fabric.MachineRef, len(machines))
	for i := range machines {
		if property := n.property(&machines[i]); property != "" {
			n.machines[property] = machines[i].Ref
		}
	}
	for name := range n.known {
		n.tell(planner, name)
	}
}

func (n *nodes) property(m *fabric.Machine) string {
	switch {
	case n.mapping.SystemUUID != nil:
		return strings.ToLower(m.UUID)
	case n.mapping.Label == nil:
		return string(m.Ref)
	}
	switch n.mapping.Label.Property {
	case v1alpha1.MachineSerialNumber:
		return m.SerialNumber
	case v1alpha1.MachineHostName:
		return m.HostName
	default:
		return m.Name
	}
}

// tell says nothing of a node whose machine is not known yet.
func (n *nodes) tell(planner *fabric.Planner, name string) {
	if n.machines != nil {
		planner.ObserveNode(fabric.Node{Name: name, Machine: n.machines[n.known[name].property]})
		return
	}
	if machine, ok := n.assumed[name]; ok {
		planner.ObserveNode(fabric.Node{Name: name, Machine: machine})
	}
}

// mapped counts the nodes that are machines of the fabric.
func (n *nodes) mapped() int {
	count := 0
	for _, facts := range n.known {
		if n.machines[facts.property] != "" {
			count++
		}
	}
	return count
}

// labels are the label values of nodes, by which slices select them. A node without
// the label cannot be selected.
func (n *nodes) labels(names []string) []string {
	var values []string
	for _, name := range names {
		if label := n.known[name].label; label != "" {
			values = append(values, label)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
