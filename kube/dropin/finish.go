// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// finish makes a result the stock allocator's: without what features that are off
// would add, and with share IDs that were never used before.
func (a *allocator) finish(r *alloc.Result, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if r.Claims == nil {
		return []resourceapi.AllocationResult{}, nil
	}
	for i := range r.Claims {
		if err := checkSelectors(r.Devices[i]); err != nil {
			return nil, fmt.Errorf("create NodeSelector for claim %s: %w", claims[i].Name, err)
		}
		results := r.Claims[i].Devices.Results
		for j := range results {
			if results[j].ShareID != nil {
				id := uuid.NewUUID()
				results[j].ShareID = &id
			}
			if !a.features.DeviceBindingAndStatus {
				results[j].BindingConditions, results[j].BindingFailureConditions = nil, nil
			}
		}
	}
	return r.Claims, nil
}

// checkSelectors reports node selectors that cannot be put together, unless the
// allocation is for one node anyway.
func checkSelectors(devices []*inventory.Device) error {
	for _, d := range devices {
		if d.Reach.NodeName != "" || d.BindsToNode() {
			return nil
		}
		if s := d.Reach.Selector; s != nil && len(s.NodeSelectorTerms) > 1 {
			return fmt.Errorf("unsupported ResourceSlice.NodeSelector with %d terms", len(s.NodeSelectorTerms))
		}
	}
	return nil
}
