// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
)

// Annotations of a pod; see the package documentation.
const (
	RunForAnnotation    = "kerf.dev/run-for"
	ExitCodeAnnotation  = "kerf.dev/exit-code"
	StopAfterAnnotation = "kerf.dev/stop-after"
)

// reasonBadAnnotation is the reason of the event for an annotation that cannot
// be parsed.
const reasonBadAnnotation = "InvalidAnnotation"

// syncPod moves a bound pod to its next state. A positive duration asks for
// another look after that time.
func (k *Kubelets) syncPod(ctx context.Context, item key) (time.Duration, error) {
	pod, err := k.pods.Pods(item.namespace).Get(item.name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pod %s: %w", item, err)
	}
	if pod.Spec.NodeName == "" {
		return 0, nil
	}
	if _, err := k.nodes.Get(pod.Spec.NodeName); err != nil {
		// Without its node nobody runs or removes the pod, as in a cluster.
		return 0, nil //nolint:nilerr // The lister only fails with NotFound.
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return k.terminate(ctx, pod)
	case pod.Status.Phase == corev1.PodPending:
		return 0, k.start(ctx, pod)
	case pod.Status.Phase == corev1.PodRunning:
		return k.finish(ctx, pod)
	}
	return 0, nil
}

// start lets the containers run once all claims are the pod's.
func (k *Kubelets) start(ctx context.Context, pod *corev1.Pod) error {
	ready, err := k.claimsReady(pod)
	if err != nil || !ready {
		return err
	}
	pod = pod.DeepCopy()
	setRunning(pod, metav1.Now(), k.nextAddress())
	return k.updateStatus(ctx, pod)
}

// finish ends the containers of a running pod whose time is over.
func (k *Kubelets) finish(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	duration, ok := k.durationAnnotation(pod, RunForAnnotation)
	if !ok || pod.Status.StartTime == nil {
		return 0, nil
	}
	if left := time.Until(pod.Status.StartTime.Add(duration)); left > 0 {
		return left, nil
	}
	pod = pod.DeepCopy()
	setFinished(pod, metav1.Now(), k.exitCode(pod))
	return 0, k.updateStatus(ctx, pod)
}

// terminate removes a deleted pod when its containers have stopped.
func (k *Kubelets) terminate(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if stopAfter, ok := k.durationAnnotation(pod, StopAfterAnnotation); ok && !claim.Ended(pod) {
		deadline := pod.DeletionTimestamp.Time
		var grace time.Duration
		if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		// The deletion timestamp already includes the grace period.
		if stopped := deadline.Add(stopAfter - grace); stopped.Before(deadline) {
			deadline = stopped
		}
		if left := time.Until(deadline); left > 0 {
			return left, nil
		}
	}
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("pod %s/%s: delete: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

// claimsReady reports whether every claim of the pod is allocated and reserved
// for it, special claims for extended resources included.
func (k *Kubelets) claimsReady(pod *corev1.Pod) (bool, error) {
	for ref := range claim.Refs(pod) {
		if ref.Claim == "" {
			return false, nil // The pod's status update brings it back.
		}
		c, err := k.claims.ResourceClaims(pod.Namespace).Get(ref.Claim)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("claim %s/%s: %w", pod.Namespace, ref.Claim, err)
		}
		if c.Status.Allocation == nil || !claim.ReservedFor(c, pod) {
			return false, nil
		}
	}
	return true, nil
}

func (k *Kubelets) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	if _, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("pod %s/%s: update status to %s: %w", pod.Namespace, pod.Name, pod.Status.Phase, err)
	}
	return nil
}

// durationAnnotation is the value of the annotation and whether the pod has it.
func (k *Kubelets) durationAnnotation(pod *corev1.Pod, name string) (time.Duration, bool) {
	text, ok := pod.Annotations[name]
	if !ok {
		return 0, false
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, reasonBadAnnotation,
			"metadata.annotations[%s]: %q is not a duration such as \"90s\"", name, text)
		return 0, false
	}
	return duration, true
}

func (k *Kubelets) exitCode(pod *corev1.Pod) int32 {
	text, ok := pod.Annotations[ExitCodeAnnotation]
	if !ok {
		return 0
	}
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, reasonBadAnnotation,
			"metadata.annotations[%s]: %q is not an exit code between 0 and 255", ExitCodeAnnotation, text)
		return 0
	}
	return int32(code)
}

// nextAddress returns a pod address that no other pod has.
func (k *Kubelets) nextAddress() string {
	n := k.addresses.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", 64+n>>16&63, n>>8&255, n&255)
}
