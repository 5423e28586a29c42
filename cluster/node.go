// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ample is what a node of no machine has: enough that devices are what runs out first.
var ample = v1.ResourceList{
	v1.ResourceCPU:              resource.MustParse("128"),
	v1.ResourceMemory:           resource.MustParse("1Ti"),
	v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	v1.ResourcePods:             resource.MustParse("500"),
}

// Ample is what a node has that is made up: what its object mentions, and plenty of the
// rest.
func Ample(mentioned v1.ResourceList) v1.ResourceList {
	all := maps.Clone(ample)
	maps.Copy(all, mentioned)
	return all
}
