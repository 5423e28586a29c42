// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
)

// question tells what the search for a pod is about: its claims, whether they have
// devices, and the classes that they name. Another answer may come where it changes.
func (h *hints) question(pod *v1.Pod) string {
	wanted, allocated, ok := h.waiting(pod)
	if !ok {
		return ""
	}
	var text strings.Builder
	for _, pc := range allocated {
		fmt.Fprintf(&text, "has %s;", pc.Claim.UID)
	}
	for _, pc := range wanted {
		fmt.Fprintf(&text, "wants %s;", pc.Claim.UID)
		for ask := range claim.Asks(&pc.Claim.Spec.Devices) {
			if class, err := h.manager.DeviceClasses().Get(ask.DeviceClassName); err == nil {
				fmt.Fprintf(&text, "%s/%s/%d;", class.Name, class.UID, class.Generation)
			}
		}
	}
	return text.String()
}
