// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kerf.dev/kerf/sandbox/hollow"
	"kerf.dev/kerf/sandbox/part"
)

// newKubelets returns the kubelets of all simulated nodes. They are ready when the nodes
// that the options want are there.
func newKubelets(s *Sandbox) *part.Lasting {
	return &part.Lasting{
		Name: "hollow nodes", Failed: s.fail,
		Setup: func(ctx context.Context) (func() error, error) {
			kubelets, err := hollow.New(s.client, func(*corev1.Pod) { s.firstBound.observe(time.Since(s.started)) })
			if err != nil {
				return nil, err
			}
			return func() error { return kubelets.Run(ctx) }, nil
		},
		Ready: func(ctx context.Context) error { return addNodes(ctx, s.client, s.options.Nodes) },
	}
}

// addNodes creates simulated nodes node-1 to node-n with default resources.
func addNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	for i := range n {
		node := hollow.NewNode(fmt.Sprintf("node-%d", i+1))
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
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
