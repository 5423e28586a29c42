// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// heldBy says who holds the devices together, for example "held by ns/a and 2
// claims in other namespaces".
func (o *Options) heldBy(devices ...inventory.DeviceID) string {
	if who := o.holders(devices...); who != "" {
		return "held by " + who
	}
	return "held by another claim"
}

// holders names the claims that hold any of the devices and may be named, and
// counts the others. It is empty where none is known.
func (o *Options) holders(devices ...inventory.DeviceID) string {
	if o.Holders == nil {
		return ""
	}
	var named []string
	var hidden []inventory.Holder
	for _, id := range devices {
		for _, h := range o.Holders(id) {
			switch {
			case h == (inventory.Holder{}):
				// Somebody that the inventory does not know either.
			case o.Visible != nil && !o.Visible(h.Namespace):
				if !slices.Contains(hidden, h) {
					hidden = append(hidden, h)
				}
			case !slices.Contains(named, h.String()):
				named = append(named, h.String())
			}
		}
	}
	slices.Sort(named)
	if n := len(hidden); n > 0 {
		named = append(named[:min(len(named), listed)], count(n, "claim")+" in "+verb(n, "another namespace", "other namespaces"))
	}
	return listAnd(named)
}
