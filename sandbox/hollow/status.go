// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setRunning is the status of a pod whose containers run and are ready.
func setRunning(pod *corev1.Pod, now metav1.Time, address string) {
	status := &pod.Status
	status.Phase = corev1.PodRunning
	status.Reason, status.Message = "", ""
	status.StartTime = &now
	status.HostIP, status.HostIPs = nodeAddress, []corev1.HostIP{{IP: nodeAddress}}
	status.PodIP, status.PodIPs = address, []corev1.PodIP{{IP: address}}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		setCondition(pod, kind, corev1.ConditionTrue, "", now)
	}

	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		state := corev1.ContainerState{Terminated: terminated(now, now, 0)}
		if sidecar(&container) {
			state = running
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(&container, state))
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(&container, running))
	}
}

// setFinished is the status of a pod whose containers have all ended with that
// exit code.
func setFinished(pod *corev1.Pod, now metav1.Time, exitCode int32) {
	status := &pod.Status
	status.Phase = corev1.PodSucceeded
	if exitCode != 0 {
		status.Phase = corev1.PodFailed
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(pod, kind, corev1.ConditionFalse, "PodCompleted", now)
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running == nil {
				continue
			}
			list[i].State = corev1.ContainerState{
				Terminated: terminated(list[i].State.Running.StartedAt, now, exitCode),
			}
			list[i].Ready = false
			list[i].Started = new(bool)
		}
	}
}

func containerStatus(container *corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	started := state.Running != nil
	return corev1.ContainerStatus{
		Name:        container.Name,
		Image:       container.Image,
		ContainerID: "hollow://" + container.Name,
		State:       state,
		Ready:       true,
		Started:     &started,
	}
}

func terminated(from, to metav1.Time, exitCode int32) *corev1.ContainerStateTerminated {
	reason := "Completed"
	if exitCode != 0 {
		reason = "Error"
	}
	return &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, StartedAt: from, FinishedAt: to}
}

// sidecar reports whether an init container keeps running beside the others.
func sidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, value corev1.ConditionStatus, reason string, now metav1.Time) {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type != kind {
			continue
		}
		if condition.Status != value {
			condition.LastTransitionTime = now
		}
		condition.Status, condition.Reason, condition.Message = value, reason, ""
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: kind, Status: value, Reason: reason, LastTransitionTime: now,
	})
}
