// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
)

var podResource = v1.SchemeGroupVersion.WithResource("pods")

// serveSpecialClaims adds what special claims need of the API server: creation and
// deletion of claims, the status of pods, and binding.
func (s *apiServer) serveSpecialClaims() {
	s.client.PrependReactor("create", "resourceclaims", s.guarded(s.createClaim))
	s.client.PrependReactor("delete", "resourceclaims", s.guarded(s.deleteClaim))
	s.client.PrependReactor("patch", "pods", s.guarded(s.patchPod))
	s.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		return s.guarded(s.bindPod)(action)
	})
}

func (s *apiServer) guarded(apply func(clienttesting.Action) (runtime.Object, error)) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mutex.Lock()
		before, after := s.before, s.after
		s.mutex.Unlock()
		if before != nil {
			if err := before(action); err != nil {
				return true, nil, err
			}
		}
		object, err := apply(action)
		if err == nil && after != nil {
			err = after(action)
		}
		return true, object, err
	}
}

func (s *apiServer) createClaim(action clienttesting.Action) (runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	claim := as[*resourceapi.ResourceClaim](as[clienttesting.CreateAction](action).GetObject()).DeepCopy()
	special := claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != ""
	switch {
	case len(validation.IsDNS1123Subdomain(claim.Name)) > 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name: invalid value %q", claim.Name))
	case special && claim.UID != "" || claim.ResourceVersion != "" || claim.Status.Allocation != nil:
		return nil, apierrors.NewBadRequest("fields that the API server sets")
	}
	for i := range claim.OwnerReferences {
		if claim.OwnerReferences[i].UID == "" {
			return nil, apierrors.NewBadRequest("metadata.ownerReferences: uid is missing")
		}
	}
	if _, err := s.client.Tracker().Get(claimResource, claim.Namespace, claim.Name); err == nil {
		return nil, apierrors.NewAlreadyExists(claimResource.GroupResource(), claim.Name)
	}
	s.stamp(claim)
	if claim.UID == "" {
		claim.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
	}
	claim.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(s.version) * time.Second))
	return claim, s.client.Tracker().Create(claimResource, claim, claim.Namespace)
}

func (s *apiServer) deleteClaim(action clienttesting.Action) (runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	request := as[clienttesting.DeleteActionImpl](action)
	object, err := s.client.Tracker().Get(claimResource, request.Namespace, request.Name)
	if err != nil {
		return nil, err
	}
	claim := as[*resourceapi.ResourceClaim](object).DeepCopy()
	if p := request.DeleteOptions.Preconditions; p != nil && p.UID != nil && *p.UID != claim.UID {
		return nil, apierrors.NewConflict(claimResource.GroupResource(), claim.Name, errors.New("precondition failed: UID"))
	}
	if len(claim.Finalizers) == 0 {
		return nil, s.client.Tracker().Delete(claimResource, claim.Namespace, claim.Name)
	}
	claim.DeletionTimestamp = &metav1.Time{Time: start}
	s.stamp(claim)
	return claim, s.client.Tracker().Update(claimResource, claim, claim.Namespace)
}

func (s *apiServer) patchPod(action clienttesting.Action) (runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	patch := as[clienttesting.PatchAction](action)
	object, err := s.client.Tracker().Get(podResource, patch.GetNamespace(), patch.GetName())
	if err != nil {
		return nil, err
	}
	before := as[*v1.Pod](object)
	pod := &v1.Pod{}
	if err := mergeInto(pod, before, patch.GetPatch()); err != nil {
		return nil, err
	}
	if pod.UID != before.UID {
		immutable := field.Invalid(field.NewPath("metadata", "uid"), pod.UID, "field is immutable")
		return nil, apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, field.ErrorList{immutable})
	}
	if pod.ResourceVersion != before.ResourceVersion {
		return nil, apierrors.NewConflict(podResource.GroupResource(), pod.Name, errors.New("the object has been modified"))
	}
	if pod.Status.ExtendedResourceClaimStatus == nil {
		pod.Status.ExtendedResourceClaimStatus = before.Status.ExtendedResourceClaimStatus
	}
	if err := validateMappings(pod); err != nil {
		return nil, err
	}
	if err := s.validateStatuses(pod); err != nil {
		return nil, err
	}
	s.stamp(pod)
	return pod, s.client.Tracker().Update(podResource, pod, pod.Namespace)
}

// validateStatuses looks for claims that the pod does not have.
func (s *apiServer) validateStatuses(pod *v1.Pod) error {
	names := map[string]bool{}
	for _, claim := range pod.Spec.ResourceClaims {
		names[ptr.Deref(claim.ResourceClaimName, "")] = true
	}
	for _, claim := range pod.Status.ResourceClaimStatuses {
		names[ptr.Deref(claim.ResourceClaimName, "")] = true
	}
	if special := pod.Status.ExtendedResourceClaimStatus; special != nil && s.latest {
		names[special.ResourceClaimName] = true
	}
	for i, status := range pod.Status.NodeAllocatableResourceClaimStatuses {
		if !names[status.ResourceClaimName] {
			path := field.NewPath("status", "nodeAllocatableResourceClaimStatuses").Index(i).Child("resourceClaimName")
			return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, field.ErrorList{field.Invalid(path, status.ResourceClaimName, "no mapping found in pod reference")})
		}
	}
	return nil
}

// mergeInto decodes an object as it is after a JSON merge patch.
func mergeInto(after, before any, patch []byte) error {
	old, err := json.Marshal(before)
	if err != nil {
		return err
	}
	var object, changes map[string]any
	if err := errors.Join(json.Unmarshal(old, &object), json.Unmarshal(patch, &changes)); err != nil {
		return err
	}
	merge(object, changes)
	merged, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(merged, after)
}

func merge(object, changes map[string]any) {
	for key, change := range changes {
		inner, isObject := change.(map[string]any)
		if !isObject {
			object[key] = change
			continue
		}
		if _, ok := object[key].(map[string]any); !ok {
			object[key] = map[string]any{}
		}
		merge(as[map[string]any](object[key]), inner)
	}
}

// validateMappings is what the API server checks of them.
func validateMappings(pod *v1.Pod) error {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return nil
	}
	if len(status.RequestMappings) == 0 || len(validation.IsDNS1123Subdomain(status.ResourceClaimName)) > 0 {
		return apierrors.NewBadRequest("status.extendedResourceClaimStatus is incomplete")
	}
	seen := map[v1.ContainerExtendedResourceRequest]bool{}
	for _, m := range status.RequestMappings {
		if seen[m] {
			return apierrors.NewBadRequest("status.extendedResourceClaimStatus.requestMappings: duplicate")
		}
		seen[m] = true
		known := slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c v1.Container) bool {
			_, asks := c.Resources.Requests[v1.ResourceName(m.ResourceName)]
			return c.Name == m.ContainerName && asks
		})
		if !known || len(validation.IsDNS1123Label(m.RequestName)) > 0 {
			return apierrors.NewBadRequest("status.extendedResourceClaimStatus.requestMappings: no such container, resource or request")
		}
	}
	return nil
}

func (s *apiServer) bindPod(action clienttesting.Action) (runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	binding := as[*v1.Binding](as[clienttesting.CreateAction](action).GetObject())
	object, err := s.client.Tracker().Get(podResource, binding.Namespace, binding.Name)
	if err != nil {
		return nil, err
	}
	pod := as[*v1.Pod](object).DeepCopy()
	if pod.Spec.NodeName != "" {
		return nil, apierrors.NewConflict(podResource.GroupResource(), pod.Name, errors.New("already bound"))
	}
	pod.Spec.NodeName = binding.Target.Name
	s.stamp(pod)
	return binding, s.client.Tracker().Update(podResource, pod, pod.Namespace)
}

// watches counts those that were started so far, by resource.
func (s *apiServer) watches() map[string]int {
	counts := map[string]int{"pods": 0, "resourceclaims": 0, "resourceslices": 0, "deviceclasses": 0}
	for _, action := range s.client.Actions() {
		if _, known := counts[action.GetResource().Resource]; known && action.GetVerb() == "watch" {
			counts[action.GetResource().Resource]++
		}
	}
	return counts
}

// specialClaims returns the special claims of a pod.
func (s *apiServer) specialClaims(t *testing.T, pod *v1.Pod) []*resourceapi.ResourceClaim {
	t.Helper()
	var claims []*resourceapi.ResourceClaim
	for _, c := range s.claims(t) {
		if claim.IsSpecialOf(pod, c) {
			claims = append(claims, c)
		}
	}
	return claims
}

func (s *apiServer) claims(t *testing.T) []*resourceapi.ResourceClaim {
	t.Helper()
	list, err := s.client.Tracker().List(claimResource, resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), "ns")
	if err != nil {
		t.Fatal(err)
	}
	var claims []*resourceapi.ResourceClaim
	for i := range as[*resourceapi.ResourceClaimList](list).Items {
		claims = append(claims, &as[*resourceapi.ResourceClaimList](list).Items[i])
	}
	return claims
}

// pod returns nil if it is gone.
func (s *apiServer) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	object, err := s.client.Tracker().Get(podResource, "ns", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return as[*v1.Pod](object)
}
