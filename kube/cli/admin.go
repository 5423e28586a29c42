// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/show"
)

// adminAccess is a device that claims have admin access to, which holds nothing of
// it. Devices without are not listed.
type adminAccess struct {
	Device string `json:"device"` // driver/pool/name
	// Claims have the access and may be named, as namespace/name; Others counts
	// the rest.
	Claims []string `json:"claims,omitempty"`
	Others int      `json:"others,omitempty"`
}

// adminAccessOf lists admin access in the order of devices. A nil visible sees all
// namespaces.
func adminAccessOf(in *input, visible func(namespace string) bool) []adminAccess {
	found := map[string]*adminAccess{}
	for _, c := range in.dump.ResourceClaims {
		for _, result := range claim.Results(c) {
			if result.AdminAccess == nil || !*result.AdminAccess {
				continue
			}
			device := inventory.IDOf(result).String()
			if found[device] == nil {
				found[device] = &adminAccess{Device: device}
			}
			if visible == nil || visible(c.Namespace) {
				found[device].Claims = append(found[device].Claims, c.Namespace+"/"+c.Name)
			} else {
				found[device].Others++
			}
		}
	}
	var all []adminAccess
	for _, device := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[device])
	}
	return all
}

func adminText(all []adminAccess) string {
	var text strings.Builder
	for _, a := range all {
		who := show.DeviceState{HeldBy: a.Claims, HeldByOthers: a.Others}
		fmt.Fprintf(&text, "admin access to %s, which holds nothing: %s\n", a.Device, who.Holders())
	}
	return text.String()
}
