// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/scenario"
)

// offer has a node that exists report the resources that an object for it names, as a
// kubelet does when a device plugin comes or goes. Others stay as they are.
func (b *backend) offer(o scenario.Object) error {
	node, ok := o.(*v1.Node)
	if !ok || len(node.Status.Allocatable)+len(node.Status.Capacity) == 0 {
		return nil
	}
	capacity := node.Status.Capacity
	if capacity == nil {
		capacity = node.Status.Allocatable
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": capacity, "allocatable": node.Status.Allocatable}})
	if err != nil {
		return err
	}
	_, err = b.sandbox.Client().CoreV1().Nodes().Patch(b.ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
