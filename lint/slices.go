// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// checkSlices reports what is wrong with slices, whatever else there is.
func (c *checker) checkSlices() {
	for _, slice := range c.cluster.ResourceSlices {
		s := sliceSpec{c.about("ResourceSlice", slice), slice}
		s.checkNodeSelectors()
		s.checkQuantities()
	}
}

// sliceSpec is a slice that is looked at by itself.
type sliceSpec struct {
	subject
	slice *resourceapi.ResourceSlice
}

// identified reports whether a slice belongs to a pool at all. What does not is
// refused by API servers and kept out of all that is said about pools.
func identified(slice *resourceapi.ResourceSlice) bool {
	return slice.Spec.Driver != "" && slice.Spec.Pool.Name != "" && slice.Spec.Pool.Generation >= 0 && slice.Spec.Pool.ResourceSliceCount > 0
}

// checkNodeSelectors reports selectors that cannot be parsed: the pool offers
// nothing.
func (s sliceSpec) checkNodeSelectors() {
	s.checkNodeSelector("spec.nodeSelector", s.slice.Spec.NodeSelector)
	for i := range s.slice.Spec.Devices {
		s.checkNodeSelector(fmt.Sprintf("spec.devices[%d].nodeSelector", i), s.slice.Spec.Devices[i].NodeSelector)
	}
}

func (s sliceSpec) checkNodeSelector(field string, selector *v1.NodeSelector) {
	if selector == nil {
		return
	}
	if _, err := nodeaffinity.NewNodeSelector(selector); err != nil {
		id := inventory.PoolID{Driver: s.slice.Spec.Driver, Pool: s.slice.Spec.Pool.Name}
		problem := &inventory.PoolProblem{Kind: inventory.BadNodeSelector, Name: s.slice.Name, Detail: err.Error()}
		s.report(Error, "invalid-node-selector", field, "correct the selector, or use nodeName",
			"pool %s offers nothing: %s", id, explain.Problem(&inventory.Pool{ID: id}, problem))
	}
}
