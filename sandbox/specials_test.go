// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"kerf.dev/kerf/claim"
)

const specialsWorld = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: twice}
spec:
  extendedResourceName: example.com/twice
  selectors: [{cel: {expression: device.driver == "twice.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: twice}
spec:
  driver: twice.example.com
  nodeName: node-1
  pool: {name: twice, generation: 1, resourceSliceCount: 1}
  devices: [{name: d0}, {name: d1}, {name: d2}]
---
apiVersion: v1
kind: Pod
metadata: {name: twice, namespace: default}
spec:
  schedulingGates: [{name: example.com/later}]
  containers: [{name: main, image: none, resources: {limits: {example.com/twice: 1}}}]
`

// testTwoSpecialClaims has another scheduler make claims for a pod with an extended
// resource: before kerf looks at it, and when it runs already. One is used, the others
// are removed and their devices are free.
func testTwoSpecialClaims(t *testing.T, s *Sandbox) {
	apply(t, s, specialsWorld)
	pods := s.Client().CoreV1().Pods(corev1.NamespaceDefault)
	pod, err := pods.Get(t.Context(), "twice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	makeSpecial(t, s, pod, "twice-a", "d0")
	makeSpecial(t, s, pod, "twice-b", "d1")
	ungate := []byte(`[{"op": "remove", "path": "/spec/schedulingGates"}]`)
	if _, err := pods.Patch(t.Context(), "twice", types.JSONPatchType, ungate, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if violations := Verify(settle(t, s).State); len(violations) > 0 {
		t.Error(violations)
	}
	awaitSpecials(t, s, pod.UID, "twice-a")
	if pod, err = pods.Get(t.Context(), "twice", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if status := pod.Status.ExtendedResourceClaimStatus; pod.Spec.NodeName != "node-1" || status == nil || status.ResourceClaimName != "twice-a" {
		t.Errorf("the pod is on node %q, its status names %v; want node-1 and claim twice-a", pod.Spec.NodeName, status)
	}

	// kerf sees the claim when it has its device.
	if _, err := s.Holds().Add(Hold{Part: "scheduler", Verb: "watch", Resource: "resourceclaims"}); err != nil {
		t.Fatal(err)
	}
	makeSpecial(t, s, pod, "late", "d2")
	s.Holds().ReleaseAll()
	awaitSpecials(t, s, pod.UID, "twice-a")
	if violations := Verify(settle(t, s).State); len(violations) > 0 {
		t.Error(violations)
	}
	if err := pods.Delete(t.Context(), "twice", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	awaitSpecials(t, s, pod.UID)
}

// makeSpecial makes a claim as a scheduler does that is about to place the pod.
func makeSpecial(t *testing.T, s *Sandbox, pod *corev1.Pod, name, device string) {
	t.Helper()
	c := claim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, "example.com/twice", "twice")})
	c.Name, c.Finalizers = name, []string{resourceapi.Finalizer}
	c.GenerateName = pod.Name + "-extended-resources-"
	claims := s.Client().ResourceV1().ResourceClaims(corev1.NamespaceDefault)
	c, err := claims.Create(t.Context(), c, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"},
	}}}}}
	c.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: selector}
	c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: c.Spec.Devices.Requests[0].Name, Driver: "twice.example.com", Pool: "twice", Device: device}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err := claims.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitSpecials waits until these are the claims that were made for a pod.
func awaitSpecials(t *testing.T, s *Sandbox, pod types.UID, want ...string) {
	t.Helper()
	var got []string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		list, err := s.Client().ResourceV1().ResourceClaims(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == pod {
				got = append(got, list.Items[i].Name)
			}
		}
		return slices.Equal(got, want), nil
	})
	if err != nil {
		t.Fatalf("%v; claims (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}
