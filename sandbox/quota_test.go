// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/kube/manifest"
)

const quotaWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: quota}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: metered}
spec:
  extendedResourceName: example.com/metered
  selectors: [{cel: {expression: device.driver == "metered.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: metered}
spec:
  driver: metered.example.com
  nodeName: node-1
  pool: {name: metered, generation: 1, resourceSliceCount: 1}
  devices: [{name: m0}, {name: m1}, {name: m2}, {name: m3}]
`

const (
	byResource = "requests.example.com/metered"
	byClass    = "metered.deviceclass.resource.k8s.io/devices"
)

// testQuota expects a device that serves an extended resource to count once: by the
// name of the resource, and by its class.
func testQuota(t *testing.T, s *Sandbox) {
	for _, verb := range []string{"list", "watch"} {
		review, err := s.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: schedulerUser, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "resourcequotas"},
		}}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed {
			t.Errorf("the scheduler may not %s quotas: %v", verb, err)
		}
	}
	apply(t, s, quotaWorld)
	setQuota(t, s, map[string]string{byResource: "3", byClass: "3"})
	// The two containers run one after the other and share a device.
	apply(t, s, `
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: quota}
spec:
  initContainers: [{name: init, image: none, resources: {limits: {example.com/metered: 2}}}]
  containers: [{name: main, image: none, resources: {limits: {example.com/metered: 1}}}]
`)
	settle(t, s)
	awaitUsed(t, s, map[string]string{byResource: "2", byClass: "2"})
	apply(t, s, meteredPod("second"))
	settle(t, s)
	awaitUsed(t, s, map[string]string{byResource: "3", byClass: "3"})
	set, err := manifest.Parse("third", strings.NewReader(meteredPod("third")))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), set); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("a third pod: %v, want it to exceed the quota", err)
	}
	deletePod(t, s, "first")
	settle(t, s)
	awaitUsed(t, s, map[string]string{byResource: "1", byClass: "1"})

	// Where only the devices of the class are limited, the pod may be created, but
	// not its claim.
	setQuota(t, s, map[string]string{byClass: "1"})
	apply(t, s, meteredPod("third"))
	expectPending(t, settle(t, s), "third", "Unschedulable", "the claim for the extended resources of the pod cannot be made: exceeded quota: devices, requested: "+byClass+"=1, used: "+byClass+"=1, limited: "+byClass+"=1; delete claims")
	deletePod(t, s, "second")
	awaitPod(t, s, "third", "is bound", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	awaitUsed(t, s, map[string]string{byClass: "1"})
	if violations := Verify(settle(t, s).State); len(violations) > 0 {
		t.Error(violations)
	}
	deletePod(t, s, "third")
	settle(t, s)
	deleteNamespace(t, s, "quota")
}

// expectPending expects a settled cluster in which the pod waits for that reason.
func expectPending(t *testing.T, settled *Settlement, name, reason, message string) {
	t.Helper()
	for _, pending := range settled.Pending {
		if pending.Pod.Name == name && pending.Reason == reason && strings.Contains(pending.Message, message) && len(settled.Stuck) == 0 {
			return
		}
	}
	t.Errorf("pending %+v, stuck %v: want %s for %s: %s", settled.Pending, settled.Stuck, name, reason, message)
}

// testPolicy expects a pod whose claim a policy refuses to wait, told by the policy, and
// to come some time after it is permitted.
func testPolicy(t *testing.T, s *Sandbox) {
	apply(t, s, quotaWorld+claimPolicy)
	policies, bindings := s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	// Other tests on this sandbox make claims, whatever comes of this one.
	defer func() {
		if err := errors.Join(client.IgnoreNotFound(bindings.Delete(context.Background(), "claims", metav1.DeleteOptions{})), client.IgnoreNotFound(policies.Delete(context.Background(), "claims", metav1.DeleteOptions{}))); err != nil {
			t.Error(err)
		}
	}()
	awaitPolicy(t, s)
	apply(t, s, meteredPod("first"))
	expectPending(t, settle(t, s), "first", "Unschedulable", "the claim for the extended resources of the pod cannot be made: ")
	expectPending(t, settle(t, s), "first", "Unschedulable", "ValidatingAdmissionPolicy 'claims' with binding 'claims' denied request: no claims today; have whoever refuses it permit it")
	must(t, bindings.Delete(t.Context(), "claims", metav1.DeleteOptions{}))
	must(t, policies.Delete(t.Context(), "claims", metav1.DeleteOptions{}))
	awaitPod(t, s, "first", "is bound", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	deletePod(t, s, "first")
	settle(t, s)
	deleteNamespace(t, s, "quota")
}

const claimPolicy = `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: claims}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [resource.k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [resourceclaims]}]}
  validations: [{expression: "false", message: no claims today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: claims}
spec: {policyName: claims, validationActions: [Deny]}
`

// awaitPolicy waits until the policy is in force, which is some time after it was made.
func awaitPolicy(t *testing.T, s *Sandbox) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		_, last = s.Client().ResourceV1().ResourceClaims("quota").Create(ctx, claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(last), nil
	})
	if err != nil {
		t.Fatalf("the policy never refuses claims: %v", last)
	}
}

func meteredPod(name string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: quota}
spec:
  containers: [{name: main, image: none, resources: {limits: {example.com/metered: 1}}}]
`
}

func deletePod(t *testing.T, s *Sandbox, name string) {
	t.Helper()
	if err := s.Client().CoreV1().Pods("quota").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
}

// setQuota replaces the quota of the namespace and waits until it is in force.
func setQuota(t *testing.T, s *Sandbox, hard map[string]string) {
	t.Helper()
	quotas := s.Client().CoreV1().ResourceQuotas("quota")
	if err := quotas.Delete(t.Context(), "devices", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	var limits strings.Builder
	for name, amount := range hard {
		limits.WriteString("    " + name + ": \"" + amount + "\"\n")
	}
	apply(t, s, "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: devices, namespace: quota}\nspec:\n  hard:\n"+limits.String())
	awaitQuota(t, s, "is in force", func(quota *corev1.ResourceQuota) bool {
		return len(quota.Status.Used) == len(hard)
	})
}

func awaitUsed(t *testing.T, s *Sandbox, want map[string]string) {
	t.Helper()
	awaitQuota(t, s, "counts each device once", func(quota *corev1.ResourceQuota) bool {
		return cmp.Equal(want, usedOf(quota))
	})
}

func usedOf(quota *corev1.ResourceQuota) map[string]string {
	used := map[string]string{}
	for name, amount := range quota.Status.Used {
		used[string(name)] = amount.String()
	}
	return used
}

func awaitQuota(t *testing.T, s *Sandbox, what string, done func(*corev1.ResourceQuota) bool) {
	t.Helper()
	var last *corev1.ResourceQuota
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		quota, err := s.Client().CoreV1().ResourceQuotas("quota").Get(ctx, "devices", metav1.GetOptions{})
		last = quota
		return err == nil && done(quota), err
	})
	if err != nil {
		t.Fatalf("the quota never %s: used %v of %v: %v", what, usedOf(last), last.Spec.Hard, err)
	}
}

func awaitPod(t *testing.T, s *Sandbox, name, what string, done func(*corev1.Pod) bool) {
	t.Helper()
	var last *corev1.Pod
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		pod, err := s.Client().CoreV1().Pods("quota").Get(ctx, name, metav1.GetOptions{})
		last = pod
		return err == nil && done(pod), err
	})
	if err != nil {
		t.Fatalf("pod %s never %s: %v: %v", name, what, last.Status.Conditions, err)
	}
}
