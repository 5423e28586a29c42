// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// MisfitKind is why a node does not suit a pod, apart from devices.
type MisfitKind string

// The kinds of misfits.
const (
	// OtherNode: the pod names another node (spec.nodeName).
	OtherNode MisfitKind = "OtherNode"
	// Unschedulable: the node is cordoned.
	Unschedulable MisfitKind = "Unschedulable"
	// NodeTaint: the pod does not tolerate Taint.
	NodeTaint MisfitKind = "NodeTaint"
	// NodeSelector: the pod's node selector or affinity does not match.
	NodeSelector MisfitKind = "NodeSelector"
	// TooManyPods: the node has all the pods that it may have.
	TooManyPods MisfitKind = "TooManyPods"
	// TooLittle: the pod wants more of Resource than is Free.
	TooLittle MisfitKind = "TooLittle"
	// NotServed: the pod wants an extended Resource that no device class serves and
	// that the node does not offer.
	NotServed MisfitKind = "NotServed"
	// ClaimElsewhere: Claim is allocated for other nodes.
	ClaimElsewhere MisfitKind = "ClaimElsewhere"
	// SpecialNeedless: device plugins serve all extended resources of the pod, but its
	// status names the claim Claim for them already.
	SpecialNeedless MisfitKind = "SpecialNeedless"
	// SpecialOverQuota: the claim with the devices that serve extended resources of the
	// pod there cannot be made, as a ResourceQuota refuses it, see Detail.
	SpecialOverQuota MisfitKind = "SpecialOverQuota"
)

// Misfit is one reason why a node does not suit a pod. Which fields are set
// depends on the kind.
type Misfit struct {
	Kind     MisfitKind
	Taint    v1.Taint
	Resource v1.ResourceName
	// Wants and Free are in units of the resource. Free is below zero where pods have
	// more than the node offers by now.
	Wants, Free inventory.Amount
	Claim       string // namespace/name, of SpecialNeedless the name
	// Detail is what an API server says.
	Detail string
}

// usage is what pods request of a node.
type usage struct {
	pods      int64
	resources map[v1.ResourceName]inventory.Amount
}

func newUsage() *usage { return &usage{resources: map[v1.ResourceName]inventory.Amount{}} }

func (u *usage) add(pod *v1.Pod) {
	u.pods++
	for name, q := range claim.PodRequests(pod) {
		u.resources[name] = u.resources[name].Add(inventory.AmountOf(q))
	}
}

func (u *usage) remove(pod *v1.Pod) {
	u.pods--
	for name, q := range claim.PodRequests(pod) {
		u.resources[name] = u.resources[name].Sub(inventory.AmountOf(q))
	}
}

// fraction is the part of the node's cpu or memory, whichever is more, that is
// used.
func (u *usage) fraction(node *v1.Node) float64 {
	var most float64
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		most = max(most, u.resources[name].Ratio(inventory.AmountOf(node.Status.Allocatable[name])))
	}
	return most
}

// misfits returns everything that keeps the pod from the node, but for devices.
func (w *World) misfits(pod *v1.Pod, node *v1.Node) []Misfit {
	var found []Misfit
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return []Misfit{{Kind: OtherNode}}
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !tolerates(pod, &cordon) {
		found = append(found, Misfit{Kind: Unschedulable})
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != v1.TaintEffectPreferNoSchedule && taint.Key != cordon.Key && !tolerates(pod, taint) {
			found = append(found, Misfit{Kind: NodeTaint, Taint: *taint})
		}
	}
	// A term that cannot be parsed matches nothing.
	if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
		found = append(found, Misfit{Kind: NodeSelector})
	}
	return append(found, w.shortages(pod, node)...)
}

func (w *World) shortages(pod *v1.Pod, node *v1.Node) []Misfit {
	var found []Misfit
	used := w.used[node.Name]
	if most, limited := node.Status.Allocatable[v1.ResourcePods]; limited && used.pods >= most.Value() {
		found = append(found, Misfit{Kind: TooManyPods})
	}
	wants := claim.PodRequests(pod)
	left := w.left(node)
	for _, name := range claim.Lacking(wants, left) {
		misfit := Misfit{Kind: TooLittle, Resource: name, Wants: inventory.AmountOf(wants[name]), Free: left[name]}
		if claim.IsExtended(name) && node.Status.Allocatable.Name(name, resource.DecimalSI).IsZero() {
			if w.classServing(name) != "" {
				continue // devices have to serve it
			}
			misfit = Misfit{Kind: NotServed, Resource: name, Wants: misfit.Wants}
		}
		found = append(found, misfit)
	}
	return found
}

// classServing returns the name of the class that serves an extended resource, empty
// where there is none.
func (w *World) classServing(name v1.ResourceName) string {
	if class := claim.ClassServing(name, slices.Values(w.cluster.DeviceClasses)); class != nil {
		return class.Name
	}
	return ""
}

// left is what the pods on a node leave of what is allocatable.
func (w *World) left(node *v1.Node) map[v1.ResourceName]inventory.Amount {
	left := claim.Amounts(node.Status.Allocatable)
	for name, amount := range w.used[node.Name].resources {
		left[name] = left[name].Sub(amount)
	}
	return left
}

// tolerates knows the operators Lt and Gt, too: an API server lets them in only where
// its scheduler knows them (TaintTolerationComparisonOperators).
func tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	return corev1.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, taint, true)
}
