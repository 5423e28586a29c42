// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// spelledTwice says that a request names a capacity of the device under both spellings.
// It continues "the device is".
func spelledTwice(d *inventory.Device, requests map[resourceapi.QualifiedName]resource.Quantity) string {
	twice := inventory.Twice(requests, d.ID.Driver)
	if len(twice) == 0 {
		return ""
	}
	return fmt.Sprintf("asked for %s and %s, which are one capacity: name it once", inventory.LocalName(d.ID.Driver, twice[0]), twice[0])
}

// lossToSpelling is the loss to capacity; where that is how the request spells it, the
// names.
func (o *Options) lossToSpelling(r *alloc.RequestReport) string {
	asked, ok := o.asked(r.Claim, r.Request)
	dropped := r.Dropped[alloc.StageCapacity]
	if !ok || asked.Capacity == nil || len(dropped) == 0 {
		return losses[alloc.StageCapacity]
	}
	text := spelledTwice(dropped[0], asked.Capacity.Requests)
	for _, d := range dropped {
		if spelledTwice(d, asked.Capacity.Requests) != text {
			text = ""
		}
	}
	if text = strings.TrimSuffix(text, ": name it once"); text == "" {
		return losses[alloc.StageCapacity]
	}
	return text
}
