// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Reaches reports whether the node can use an allocation. A selector that cannot
// be parsed selects nothing.
func Reaches(a *resourceapi.AllocationResult, node *v1.Node) bool {
	if a.NodeSelector == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
	return err == nil && selector.Match(node)
}
