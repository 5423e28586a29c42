// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// apiServer makes a fake client treat ResourceClaims as the API server does,
// where that matters here: resource versions and conflicts, the status
// subresource, and what may be done to an allocation.
type apiServer struct {
	client *fake.Clientset

	mutex   sync.Mutex
	version int
	// before is called before each write of a claim, and may return an error
	// in its place. A lost reply is an error in after.
	before, after func(action clienttesting.Action) error
	// latest is set for an API server that lets pods say what their special claims take of
	// nodes, which those of Kubernetes 1.37 do not.
	latest bool
}

var claimResource = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")

func newAPIServer(objects ...runtime.Object) *apiServer {
	s := &apiServer{client: fake.NewClientset(), version: 1}
	for _, object := range objects {
		if err := s.client.Tracker().Add(s.stamp(object.DeepCopyObject())); err != nil {
			panic(err)
		}
	}
	s.client.PrependReactor("update", "resourceclaims", s.write)
	s.client.PrependReactor("patch", "resourceclaims", s.write)
	s.serveSpecialClaims()
	return s
}

func (s *apiServer) stamp(object runtime.Object) runtime.Object {
	s.version++
	if m, ok := object.(metav1.Object); ok {
		m.SetResourceVersion(strconv.Itoa(s.version))
	}
	return object
}

func (s *apiServer) write(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mutex.Lock()
	before, after := s.before, s.after
	s.mutex.Unlock()
	if before != nil {
		if err := before(action); err != nil {
			return true, nil, err
		}
	}
	claim, err := s.apply(action)
	if err == nil && after != nil {
		err = after(action)
	}
	return true, claim, err
}

func (s *apiServer) apply(action clienttesting.Action) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name, change := target(action)
	object, err := s.client.Tracker().Get(claimResource, action.GetNamespace(), name)
	if err != nil {
		return nil, err
	}
	before := as[*resourceapi.ResourceClaim](object)
	next, err := change(before)
	if err != nil {
		return nil, err
	}
	if next.ResourceVersion != "" && next.ResourceVersion != before.ResourceVersion {
		return nil, apierrors.NewConflict(claimResource.GroupResource(), name, errors.New("the object has been modified"))
	}
	next = next.DeepCopy()
	if action.GetSubresource() == "status" {
		next.ObjectMeta, next.Spec = *before.ObjectMeta.DeepCopy(), *before.Spec.DeepCopy()
	} else {
		next.Status = *before.Status.DeepCopy()
	}
	if err := validate(before, next); err != nil {
		return nil, err
	}
	if next.Status.Allocation == nil {
		next.Status.Devices = nil
	}
	s.stamp(next)
	if next.DeletionTimestamp != nil && len(next.Finalizers) == 0 {
		return next, s.client.Tracker().Delete(claimResource, next.Namespace, next.Name)
	}
	return next, s.client.Tracker().Update(claimResource, next, next.Namespace)
}

// target returns which claim an action changes, and how.
func target(action clienttesting.Action) (name string, change func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)) {
	if update, ok := action.(clienttesting.UpdateAction); ok {
		next := as[*resourceapi.ResourceClaim](update.GetObject())
		return next.Name, func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) { return next, nil }
	}
	patch := as[clienttesting.PatchAction](action)
	return patch.GetName(), func(before *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
		old, err := json.Marshal(before)
		if err != nil {
			return nil, err
		}
		merged, err := strategicpatch.StrategicMergePatch(old, patch.GetPatch(), before)
		if err != nil {
			return nil, err
		}
		next := &resourceapi.ResourceClaim{}
		if err := json.Unmarshal(merged, next); err != nil {
			return nil, err
		}
		if next.UID != before.UID {
			return nil, apierrors.NewConflict(claimResource.GroupResource(), before.Name, errors.New("precondition failed: UID"))
		}
		return next, nil
	}
}

func validate(before, after *resourceapi.ResourceClaim) error {
	allocated := func(c *resourceapi.ResourceClaim) bool { return c.Status.Allocation != nil }
	switch {
	case allocated(before) && allocated(after) && !apiequality.Semantic.DeepEqual(before.Status.Allocation, after.Status.Allocation):
		return apierrors.NewBadRequest("status.allocation: field is immutable once set")
	case allocated(after) && !slices.Contains(after.Finalizers, resourceapi.Finalizer):
		return apierrors.NewBadRequest("the finalizer is missing")
	case !allocated(after) && len(after.Status.ReservedFor) > 0:
		return apierrors.NewBadRequest("status.reservedFor: may not be specified when allocation is not set")
	case len(after.Status.ReservedFor) > resourceapi.ResourceClaimReservedForMaxSize:
		return apierrors.NewBadRequest("status.reservedFor: too many items")
	}
	return nil
}

// change changes a claim as somebody else would do it.
func (s *apiServer) change(t *testing.T, name string, change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	object, err := s.client.Tracker().Get(claimResource, "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	claim := as[*resourceapi.ResourceClaim](object).DeepCopy()
	change(claim)
	s.stamp(claim)
	if err := s.client.Tracker().Update(claimResource, claim, claim.Namespace); err != nil {
		t.Fatal(err)
	}
	return claim
}

func (s *apiServer) claim(t *testing.T, name string) *resourceapi.ResourceClaim {
	t.Helper()
	object, err := s.client.Tracker().Get(claimResource, "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	return as[*resourceapi.ResourceClaim](object)
}

// onWrite sets what happens before and after each write of a claim.
func (s *apiServer) onWrite(before, after func(clienttesting.Action) error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.before, s.after = before, after
}

// writes returns the writes of claims so far, as "verb[/subresource] name".
func (s *apiServer) writes() []string {
	var writes []string
	for _, action := range s.client.Actions() {
		if action.GetResource().Resource != "resourceclaims" || (action.GetVerb() != "update" && action.GetVerb() != "patch") {
			continue
		}
		name, _ := target(action)
		verb := action.GetVerb()
		if sub := action.GetSubresource(); sub != "" {
			verb += "/" + sub
		}
		writes = append(writes, fmt.Sprintf("%s %s", verb, name))
	}
	return writes
}

// as converts what can only be a T.
func as[T any](object any) T {
	t, ok := object.(T)
	if !ok {
		panic(fmt.Sprintf("got a %T", object))
	}
	return t
}
