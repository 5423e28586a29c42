// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import resourceapi "k8s.io/api/resource/v1"

// Selects tells whether a DeviceTaintRule taints the device. A rule without a selector
// taints none.
func Selects(rule *resourceapi.DeviceTaintRule, id DeviceID) bool { return ruleSelects(rule, id) }

// KeepsAway tells whether a taint keeps those from a device who do not tolerate it.
// None, and effects that are not known, keep nobody away.
func KeepsAway(t *resourceapi.DeviceTaint) bool {
	return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
}
