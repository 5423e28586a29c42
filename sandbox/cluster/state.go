// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	decisive "kerf.dev/kerf/cluster"
)

// State is what the API server holds of the objects that matter to where pods
// run: what decides about devices, but for quotas, and workloads.
type State struct {
	decisive.Snapshot
	Workloads
}

// Workloads are lists of objects that make pods or have them belong together.
type Workloads struct {
	PodGroups    []*schedulingapi.PodGroup
	Deployments  []*appsv1.Deployment
	ReplicaSets  []*appsv1.ReplicaSet
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	Jobs         []*batchv1.Job
}

// New returns the state of some objects.
func New(objects *decisive.Objects, workloads Workloads) *State {
	return &State{Snapshot: *decisive.New(objects), Workloads: workloads}
}

// Source returns all objects of these kinds as they are at one moment, those of a kind
// in the order of namespace and name.
type Source func(context.Context, ...schema.GroupVersionResource) ([][]runtime.Object, error)

// Read reads the state.
func Read(ctx context.Context, from Source) (*State, error) {
	var resources []schema.GroupVersionResource
	for _, kind := range Kinds {
		resources = append(resources, kind.Resource)
	}
	objects, err := from(ctx, resources...)
	if err != nil {
		return nil, err
	}
	read := &State{}
	for i, kind := range Kinds {
		for _, object := range objects[i] {
			if err := kind.add(read, object); err != nil {
				return nil, fmt.Errorf("read %s: %w", kind.Resource.Resource, err)
			}
		}
	}
	return New(&read.Objects, read.Workloads), nil
}

// Kind is one kind of object in State.
type Kind struct {
	// Resource is how the API server calls it.
	Resource schema.GroupVersionResource
	// Objects are those in the state.
	Objects func(*State) []metav1.Object
	add     func(*State, runtime.Object) error
}

// Kinds are all kinds of objects in State.
var Kinds = []Kind{
	newKind(corev1.SchemeGroupVersion, "namespaces", func(s *State) *[]*corev1.Namespace { return &s.Namespaces }),
	newKind(corev1.SchemeGroupVersion, "nodes", func(s *State) *[]*corev1.Node { return &s.Nodes }),
	newKind(corev1.SchemeGroupVersion, "pods", func(s *State) *[]*corev1.Pod { return &s.Pods }),
	newKind(resourceapi.SchemeGroupVersion, "resourceclaims", func(s *State) *[]*resourceapi.ResourceClaim { return &s.ResourceClaims }),
	newKind(resourceapi.SchemeGroupVersion, "resourceclaimtemplates", func(s *State) *[]*resourceapi.ResourceClaimTemplate { return &s.ResourceClaimTemplates }),
	newKind(resourceapi.SchemeGroupVersion, "resourceslices", func(s *State) *[]*resourceapi.ResourceSlice { return &s.ResourceSlices }),
	newKind(resourceapi.SchemeGroupVersion, "deviceclasses", func(s *State) *[]*resourceapi.DeviceClass { return &s.DeviceClasses }),
	newKind(resourceapi.SchemeGroupVersion, "devicetaintrules", func(s *State) *[]*resourceapi.DeviceTaintRule { return &s.DeviceTaintRules }),
	newKind(schedulingapi.SchemeGroupVersion, "podgroups", func(s *State) *[]*schedulingapi.PodGroup { return &s.PodGroups }),
	newKind(appsv1.SchemeGroupVersion, "deployments", func(s *State) *[]*appsv1.Deployment { return &s.Deployments }),
	newKind(appsv1.SchemeGroupVersion, "replicasets", func(s *State) *[]*appsv1.ReplicaSet { return &s.ReplicaSets }),
	newKind(appsv1.SchemeGroupVersion, "statefulsets", func(s *State) *[]*appsv1.StatefulSet { return &s.StatefulSets }),
	newKind(appsv1.SchemeGroupVersion, "daemonsets", func(s *State) *[]*appsv1.DaemonSet { return &s.DaemonSets }),
	newKind(batchv1.SchemeGroupVersion, "jobs", func(s *State) *[]*batchv1.Job { return &s.Jobs }),
}

// newKind describes the kind whose objects are in that field of State.
func newKind[T metav1.Object](version schema.GroupVersion, resource string, field func(*State) *[]T) Kind {
	return Kind{
		Resource: version.WithResource(resource),
		add: func(state *State, read runtime.Object) error {
			object, ok := read.(T)
			if !ok {
				return fmt.Errorf("it is a %T", read)
			}
			items := field(state)
			*items = append(*items, object)
			return nil
		},
		Objects: func(state *State) []metav1.Object {
			items := *field(state)
			objects := make([]metav1.Object, len(items))
			for i, object := range items {
				objects[i] = object
			}
			return objects
		},
	}
}
