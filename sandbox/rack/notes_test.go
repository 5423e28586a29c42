// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// TestNotes: each half of a fabric says which half is missing.
func TestNotes(t *testing.T) {
	fabric := func(status metav1.ConditionStatus, message string, devices, nodes int32) v1alpha1.Fabric {
		f := v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
		if status != "" {
			f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FabricReady, Status: status, Reason: "Reason", Message: message}}
		}
		f.Status.Devices.Total, f.Status.Nodes = devices, nodes
		return f
	}
	for name, tc := range map[string]struct {
		shelf   bool
		fabrics []v1alpha1.Fabric
		want    []string
	}{
		"nothing":         {},
		"all":             {shelf: true, fabrics: []v1alpha1.Fabric{fabric("True", "", 2, 1)}},
		"no fabric":       {shelf: true, want: []string{"the shelf is not offered: no Fabric describes it"}},
		"nothing said":    {fabrics: []v1alpha1.Fabric{fabric("", "", 0, 0)}, want: []string{"fabric f is not ready: the controller has said nothing of it"}},
		"no inventory":    {fabrics: []v1alpha1.Fabric{fabric("False", "not read yet", 0, 0)}, want: []string{"fabric f is not ready: not read yet"}},
		"without message": {fabrics: []v1alpha1.Fabric{fabric("False", "", 2, 1)}, want: []string{"fabric f is not ready: Reason"}},
		"no device":       {shelf: true, fabrics: []v1alpha1.Fabric{fabric("True", "check the models", 0, 1)}, want: []string{"fabric f offers no device: check the models"}},
		"no node":         {shelf: true, fabrics: []v1alpha1.Fabric{fabric("True", "check the machines", 2, 0)}, want: []string{"fabric f offers no device: check the machines"}},
	} {
		if got := notes(tc.shelf, tc.fabrics); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
