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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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

// Read reads the state from the API server. Each kind of object is read
// consistently, one kind after the other.
func Read(ctx context.Context, client kubernetes.Interface) (*State, error) {
	read := &State{}
	for _, kind := range Kinds {
		if err := kind.list(ctx, client, read); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource.Resource, err)
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
	list    func(context.Context, kubernetes.Interface, *State) error
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
		list: func(ctx context.Context, client kubernetes.Interface, state *State) error {
			list, err := restClient(client, version).Get().Resource(resource).Do(ctx).Get()
			if err != nil {
				return err
			}
			items := field(state)
			*items = nil
			return meta.EachListItem(list, func(item runtime.Object) error {
				object, ok := item.(T)
				if !ok {
					return fmt.Errorf("the API server has sent a %T", item)
				}
				*items = append(*items, object)
				return nil
			})
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

// restClient returns the client for one of the versions of State.
func restClient(client kubernetes.Interface, version schema.GroupVersion) rest.Interface {
	switch version {
	case resourceapi.SchemeGroupVersion:
		return client.ResourceV1().RESTClient()
	case schedulingapi.SchemeGroupVersion:
		return client.SchedulingV1beta1().RESTClient()
	case appsv1.SchemeGroupVersion:
		return client.AppsV1().RESTClient()
	case batchv1.SchemeGroupVersion:
		return client.BatchV1().RESTClient()
	default:
		return client.CoreV1().RESTClient()
	}
}
