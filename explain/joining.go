// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// NotJoinable says why a pod does not get an allocated claim, and until when it waits.
func NotJoinable(c *resourceapi.ResourceClaim, tainted []claim.Tainted, o Options) string {
	return fmt.Sprintf("claim %s/%s %s", c.Namespace, c.Name, Untolerated(tainted, o))
}

// Untolerated says which taints keep further pods from an allocated claim.
func Untolerated(tainted []claim.Tainted, o Options) string {
	var devices []string
	for _, t := range tainted {
		devices = append(devices, fmt.Sprintf("%s is %s", t.Device, taintedWith(o.taintTexts(t.Taints, byRule))))
	}
	return "takes no further pods: " + List(devices) + "; waits until that is over, or until nobody else uses the claim: then it is allocated anew"
}

// NotReady says which devices of an allocated claim are not ready (KEP-5007), and what
// becomes of a pod that waits for them.
func NotReady(b claim.Binding) string {
	var devices []string
	for _, f := range b.Failed {
		devices = append(devices, Failed(f))
	}
	if len(devices) > 0 {
		return "will not become ready: " + List(devices) + "; waits until nobody else uses the claim: then it is allocated anew"
	}
	for _, d := range b.Pending {
		devices = append(devices, fmt.Sprintf("%s waits for %s", d.Device, strings.Join(d.Missing, ", ")))
	}
	return "is not ready: " + List(devices)
}

// Failed says how a device failed.
func Failed(f claim.Failure) string {
	text := fmt.Sprintf("%s has failed with %s", f.Device, f.Condition.Type)
	if said := strings.Trim(f.Condition.Reason+": "+Cut(f.Condition.Message, 120), ": "); said != "" {
		text += " (" + said + ")"
	}
	return text
}

// byRule is a taint, and the DeviceTaintRule that it comes from.
func byRule(t *inventory.Taint) string {
	if t.Rule == "" {
		return t.String()
	}
	return t.String() + " by rule " + t.Rule
}
