// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/sandbox/hollow"
)

// AddNodes creates simulated nodes node-1 to node-n with default resources.
func (s *Sandbox) AddNodes(ctx context.Context, n int) error {
	for i := range n {
		node := hollow.NewNode(fmt.Sprintf("node-%d", i+1))
		if _, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
	}
	return nil
}

// FinishPod ends the containers of a pod as soon as it runs: it becomes
// Succeeded, or Failed if the exit code is not 0. It does not wait for that.
func (s *Sandbox) FinishPod(ctx context.Context, namespace, name string, exitCode uint8) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:"%d"}}}`,
		hollow.RunForAnnotation, time.Duration(0), hollow.ExitCodeAnnotation, exitCode)
	_, err := s.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("finish pod %s/%s: %w", namespace, name, err)
	}
	return nil
}
