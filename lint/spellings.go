// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// checkSpellings reports devices that publish something under both spellings of its
// name, with the driver's domain and without.
func (c *checker) checkSpellings() {
	for _, slice := range c.cluster.ResourceSlices {
		s := sliceSpec{c.about("ResourceSlice", slice), slice}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			path := fmt.Sprintf("spec.devices[%d]", i)
			s.spelledTwice(path+".attributes", "attribute", d.Name, inventory.Twice(d.Attributes, slice.Spec.Driver))
			s.spelledTwice(path+".capacity", "capacity", d.Name, inventory.Twice(d.Capacity, slice.Spec.Driver))
		}
	}
}

func (s sliceSpec) spelledTwice(path, what, device string, twice []resourceapi.QualifiedName) {
	for _, name := range twice {
		local := inventory.LocalName(s.slice.Spec.Driver, name)
		s.report(Warning, "published-twice", fmt.Sprintf("%s[%s]", path, local), fmt.Sprintf("remove %s, which nobody reads; if its value is the right one, remove %s instead", local, name),
			"device %s publishes %s %s as %s, too: only the latter counts", device, what, local, name)
	}
}

// checkAskedCapacity reports requests for capacity that no device can meet: one under
// both spellings of its name, and more than a device has.
func (c *checker) checkAskedCapacity() {
	drivers := map[string]bool{}
	for _, pool := range c.pools {
		drivers[pool.ID.Driver] = true
	}
	for s := range c.claimSpecs {
		for a := range s.alternatives {
			if a.Capacity != nil {
				a.checkAsked(a.path+".capacity.requests", a.Capacity.Requests, drivers)
			}
		}
	}
}

func (a *alternative) checkAsked(field string, requests map[resourceapi.QualifiedName]resource.Quantity, drivers map[string]bool) {
	if n, most := len(requests), resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		a.report(Error, "capacity-too-many", field, fmt.Sprintf("ask for %d at most", most), "%s asks for %d capacities, a device has %d at most", a.Request, n, most)
	}
	for name := range sorted(requests) {
		driver, local, _ := strings.Cut(string(name), "/")
		if _, twice := requests[resourceapi.QualifiedName(local)]; twice && drivers[driver] {
			a.report(Error, "capacity-twice", fmt.Sprintf("%s[%s]", field, local), "name it once",
				"%s asks for %s and %s, which are one capacity: no device of driver %s is given", a.Request, local, name, driver)
		}
	}
}
