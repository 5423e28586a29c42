// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "testing"

// TestUntreatableParts: the error names the part, the verb, and the parts that can.
func TestUntreatableParts(t *testing.T) {
	s := &Sandbox{}
	for want, err := range map[string]error{
		"kill moon: there is no such part; it can be done to scheduler, controller, redfish, driver":  s.KillPart("moon", ""),
		"start moon: there is no such part; it can be done to scheduler, controller, redfish, driver": s.StartPart(t.Context(), "moon", ""),
		"disconnect redfish: that cannot be done to it; it can be done to scheduler, controller":      s.DisconnectPart("redfish"),
		"reconnect driver: that cannot be done to it; it can be done to scheduler, controller":        s.ReconnectPart("driver"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
