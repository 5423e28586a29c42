// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/cluster"
)

// reduced are the same objects, each reduced.
func reduced(o *cluster.Objects) *cluster.Objects {
	return &cluster.Objects{
		Namespaces:             each(o.Namespaces, namespaceOf),
		Nodes:                  each(o.Nodes, nodeOf),
		DeviceClasses:          each(o.DeviceClasses, classOf),
		ResourceSlices:         each(o.ResourceSlices, sliceOf),
		DeviceTaintRules:       each(o.DeviceTaintRules, ruleOf),
		ResourceQuotas:         each(o.ResourceQuotas, quotaOf),
		ResourceClaimTemplates: each(o.ResourceClaimTemplates, templateOf),
		ResourceClaims:         each(o.ResourceClaims, claimOf),
		Pods:                   each(o.Pods, podOf),
		CompoundPolicies:       each(o.CompoundPolicies, policyOf),
	}
}

func each[T any](objects []T, reduce func(T) T) []T {
	kept := make([]T, len(objects))
	for i, o := range objects {
		kept[i] = reduce(o)
	}
	return kept
}

// metaOf keeps what identifies an object and what selects it. Of annotations it
// keeps those that are named: tools copy whole objects into annotations.
func metaOf(m metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, UID: m.UID,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences,
	}
	for _, name := range annotations {
		if value, found := m.Annotations[name]; found {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[name] = value
		}
	}
	return kept
}

func namespaceOf(n *v1.Namespace) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metaOf(n.ObjectMeta)}
}

func nodeOf(n *v1.Node) *v1.Node {
	return &v1.Node{
		ObjectMeta: metaOf(n.ObjectMeta),
		Spec:       v1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: v1.NodeStatus{
			Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable,
			Features: n.Status.Features, DeclaredFeatures: n.Status.DeclaredFeatures,
		},
	}
}

func classOf(c *resourceapi.DeviceClass) *resourceapi.DeviceClass {
	kept := &resourceapi.DeviceClass{ObjectMeta: metaOf(c.ObjectMeta), Spec: c.Spec}
	kept.Spec.Config = nil
	return kept
}

func sliceOf(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metaOf(s.ObjectMeta), Spec: s.Spec}
}

func ruleOf(r *resourceapi.DeviceTaintRule) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metaOf(r.ObjectMeta), Spec: r.Spec}
}

// quotaOf keeps what is allowed. What is used is that of the objects.
func quotaOf(q *v1.ResourceQuota) *v1.ResourceQuota {
	return &v1.ResourceQuota{ObjectMeta: metaOf(q.ObjectMeta), Spec: q.Spec}
}

func templateOf(t *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaimTemplate {
	kept := &resourceapi.ResourceClaimTemplate{ObjectMeta: metaOf(t.ObjectMeta), Spec: t.Spec}
	kept.Spec.ObjectMeta = metaOf(t.Spec.ObjectMeta)
	kept.Spec.Spec.Devices.Config = configOf(t.Spec.Spec.Devices.Config)
	return kept
}

func claimOf(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	kept := &resourceapi.ResourceClaim{
		ObjectMeta: metaOf(c.ObjectMeta, resourceapi.PodResourceClaimAnnotation, resourceapi.ExtendedResourceClaimAnnotation),
		Spec:       c.Spec,
		Status:     resourceapi.ResourceClaimStatus{Allocation: c.Status.Allocation, ReservedFor: c.Status.ReservedFor},
	}
	kept.Spec.Devices.Config = configOf(c.Spec.Devices.Config)
	if a := c.Status.Allocation; a != nil && a.Devices.Config != nil {
		without := *a
		without.Devices.Config = nil
		kept.Status.Allocation = &without
	}
	for _, s := range c.Status.Devices { // a copy
		s.Data, s.NetworkData = nil, nil
		kept.Status.Devices = append(kept.Status.Devices, s)
	}
	return kept
}

// podOf keeps what places the pod, and whether and where it is placed.
func podOf(p *v1.Pod) *v1.Pod {
	s := &p.Spec
	kept := &v1.Pod{
		ObjectMeta: metaOf(p.ObjectMeta),
		Spec: v1.PodSpec{
			Containers: containersOf(s.Containers), InitContainers: containersOf(s.InitContainers),
			NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
			SchedulerName: s.SchedulerName, Priority: s.Priority, PriorityClassName: s.PriorityClassName,
			Overhead: s.Overhead, Resources: s.Resources, ResourceClaims: s.ResourceClaims,
			SchedulingGates: s.SchedulingGates, SchedulingGroup: s.SchedulingGroup,
		},
		Status: v1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions, NominatedNodeName: p.Status.NominatedNodeName,
			ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus,
			NodeAllocatableResourceClaimStatuses: p.Status.NodeAllocatableResourceClaimStatuses,
		},
	}
	return kept
}

func containersOf(of []v1.Container) []v1.Container {
	var kept []v1.Container
	for i := range of {
		kept = append(kept, v1.Container{Name: of[i].Name, Resources: of[i].Resources, RestartPolicy: of[i].RestartPolicy})
	}
	return kept
}

// configOf keeps which requests configuration is for, so that names that are wrong
// are noticed, and nothing of the configuration itself.
func configOf(of []resourceapi.DeviceClaimConfiguration) []resourceapi.DeviceClaimConfiguration {
	var kept []resourceapi.DeviceClaimConfiguration
	for i := range of {
		kept = append(kept, resourceapi.DeviceClaimConfiguration{Requests: of[i].Requests})
	}
	return kept
}

func policyOf(p *v1alpha1.CompoundPolicy) *v1alpha1.CompoundPolicy {
	return &v1alpha1.CompoundPolicy{ObjectMeta: metaOf(p.ObjectMeta), Spec: p.Spec}
}

// Completed is an object of a dump with something in place of what an API server asks
// for and dumps leave out: images of containers, and parameters of drivers.
func Completed(object cluster.Object) cluster.Object {
	switch o := object.(type) {
	case *v1.Pod:
		o = o.DeepCopy()
		for _, containers := range [][]v1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range containers {
				containers[i].Image = cmp.Or(containers[i].Image, "left-out")
			}
		}
		return o
	case *resourceapi.ResourceClaim:
		o = o.DeepCopy()
		completeConfig(o.Spec.Devices.Config)
		return o
	case *resourceapi.ResourceClaimTemplate:
		o = o.DeepCopy()
		completeConfig(o.Spec.Spec.Devices.Config)
		return o
	}
	return object
}

func completeConfig(config []resourceapi.DeviceClaimConfiguration) {
	for i := range config {
		if config[i].Opaque == nil {
			config[i].Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: "left-out.example.com", Parameters: runtime.RawExtension{Raw: []byte("{}")}}
		}
	}
}
