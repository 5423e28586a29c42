// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

// limit bounds waiting for something that is bound to come.
const limit = time.Minute

func TestComplete(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelHostname: "other"}},
		Status: corev1.NodeStatus{
			Allocatable:      corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), "example.com/gpu": resource.MustParse("4")},
			DeclaredFeatures: []string{},
		},
	}
	if !Complete(node) {
		t.Fatal("nothing was completed")
	}
	for name, want := range map[corev1.ResourceName]string{corev1.ResourceCPU: "2", "example.com/gpu": "4", corev1.ResourcePods: "500"} {
		for what, list := range map[string]corev1.ResourceList{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable} {
			if got := list[name]; got.String() != want {
				t.Errorf("%s of %s = %s, want %s", what, name, got.String(), want)
			}
		}
	}
	if got := node.Labels[corev1.LabelHostname]; got != "other" {
		t.Errorf("label %s = %q, want that of the object", corev1.LabelHostname, got)
	}
	if len(node.Status.DeclaredFeatures) != 0 {
		t.Errorf("declared features = %v, want none, as the object says", node.Status.DeclaredFeatures)
	}
	if Complete(node) {
		t.Error("a complete node was changed")
	}
}

// world is a cluster of one node without controllers.
type world struct {
	*fake.Clientset
	t *testing.T
}

func newWorld(t *testing.T, objects ...runtime.Object) world {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	client := fake.NewClientset(append(objects, NewNode("n"))...)
	kubelets, err := New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- kubelets.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := goleak.Find(leaks); err != nil {
			t.Error(err)
		}
	})
	return world{client, t}
}

// await waits until the pod is as wanted; nil is a pod that does not exist.
func (w world) await(name string, want func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var pod *corev1.Pod
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = w.CoreV1().Pods("ns").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return want(nil), nil
		}
		return err == nil && want(pod), err
	})
	if err != nil {
		w.t.Fatalf("pod %s: %v; it is %+v", name, err, pod)
	}
	return pod
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == phase }
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "uid-1", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestRunsForAWhile(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	w := newWorld(t, newPod("p", func(pod *corev1.Pod) {
		pod.Annotations[RunForAnnotation] = "1ms"
		pod.Annotations[ExitCodeAnnotation] = "3"
		pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}
	}))
	pod := w.await("p", inPhase(corev1.PodFailed))
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		want := int32(3)
		if status.Name == "init" {
			want = 0
		}
		if status.State.Terminated == nil || status.State.Terminated.ExitCode != want {
			t.Errorf("container %s = %+v, want exit code %d", status.Name, status.State, want)
		}
	}
}

func TestAnnotationOnRunningPod(t *testing.T) {
	w := newWorld(t, newPod("p", func(pod *corev1.Pod) { pod.Annotations[RunForAnnotation] = "soon" }))
	pod := w.await("p", inPhase(corev1.PodRunning))
	if pod.Status.PodIP == "" || len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready {
		t.Errorf("status of the running pod = %+v", pod.Status)
	}
	pod.Annotations[RunForAnnotation] = "0s"
	if _, err := w.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("p", inPhase(corev1.PodSucceeded))
}

func TestWaitsForItsClaim(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
	name := "c"
	w := newWorld(t, claim,
		newPod("p", func(pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		}),
		newPod("other", func(pod *corev1.Pod) { pod.UID = "uid-2" }))
	w.await("other", inPhase(corev1.PodRunning))
	w.await("p", inPhase(corev1.PodPending))

	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "uid-1"}}
	if _, err := w.ResourceV1().ResourceClaims("ns").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("p", inPhase(corev1.PodRunning))
}

func TestTerminates(t *testing.T) {
	grace := int64(30)
	deleted := metav1.NewTime(time.Now().Add(30 * time.Second))
	w := newWorld(t,
		newPod("at-once", func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deleted, &grace
			pod.Status.Phase = corev1.PodRunning
		}),
		newPod("slow", func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deleted, &grace
			pod.Status.Phase = corev1.PodRunning
			pod.Annotations[StopAfterAnnotation] = "10ms"
		}),
		newPod("slower", func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deleted, &grace
			pod.Status.Phase = corev1.PodRunning
			pod.Annotations[StopAfterAnnotation] = "1h"
		}))
	gone := func(pod *corev1.Pod) bool { return pod == nil }
	w.await("at-once", gone)
	w.await("slow", gone)
	if pod := w.await("slower", func(pod *corev1.Pod) bool { return pod != nil }); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("phase of a pod that takes its time = %s", pod.Status.Phase)
	}
}

// TestNodeComesBack: pods that came, ran and were deleted while their node was gone are
// attended to once it is there again.
func TestNodeComesBack(t *testing.T) {
	grace, deleted := int64(0), metav1.Now()
	w := newWorld(t,
		newPod("came", func(pod *corev1.Pod) { pod.Spec.NodeName = "away" }),
		newPod("ran", func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = "away", corev1.PodRunning, &deleted
			pod.Annotations[RunForAnnotation] = "1ms"
		}),
		newPod("deleted", func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Status.Phase = "away", corev1.PodRunning
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deleted, &grace
		}),
		newPod("elsewhere", nil))
	w.await("elsewhere", inPhase(corev1.PodRunning))
	for name, phase := range map[string]corev1.PodPhase{"came": corev1.PodPending, "ran": corev1.PodRunning, "deleted": corev1.PodRunning} {
		w.await(name, inPhase(phase))
	}
	if _, err := w.CoreV1().Nodes().Create(t.Context(), NewNode("away"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("came", inPhase(corev1.PodRunning))
	w.await("ran", inPhase(corev1.PodSucceeded))
	w.await("deleted", func(pod *corev1.Pod) bool { return pod == nil })
}

func TestNodeWithoutHelp(t *testing.T) {
	w := newWorld(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		node, err := w.CoreV1().Nodes().Get(ctx, "bare", metav1.GetOptions{})
		return err == nil && hasReadyCondition(node) && node.Labels[corev1.LabelHostname] == "bare", err
	})
	if err != nil {
		t.Errorf("node bare does not become ready: %v", err)
	}
}
