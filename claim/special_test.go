// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChooseSpecial: of several special claims one stays, whichever of them has devices.
func TestChooseSpecial(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}
	made := func(name string, day int, deleted bool) *resourceapi.ResourceClaim {
		c := NewSpecial(pod, nil)
		c.Name, c.GenerateName = name, "p-extended-resources-"
		c.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))
		if deleted {
			c.DeletionTimestamp = &c.CreationTimestamp
		}
		return c
	}
	foreign := made("foreign", 1, false)
	foreign.Status.ReservedFor = []Consumer{{Resource: "pods", Name: "q", UID: "2"}}
	asked := made("asked", 1, false)
	for _, tc := range []struct {
		what   string
		named  string
		claims []*resourceapi.ResourceClaim
		kept   string
		left   []string
	}{
		{"the oldest", "", []*resourceapi.ResourceClaim{made("young", 3, false), made("old", 2, false)}, "old", []string{"young"}},
		{"the first of one age", "", []*resourceapi.ResourceClaim{made("b", 2, false), made("a", 2, false)}, "a", []string{"b"}},
		{"the one in the status", "young", []*resourceapi.ResourceClaim{made("old", 2, false), made("young", 3, false)}, "young", []string{"old"}},
		{"none that is deleted", "", []*resourceapi.ResourceClaim{made("old", 2, true), made("young", 3, false)}, "young", []string{"old"}},
		{"nor if the status names it", "young", []*resourceapi.ResourceClaim{made("old", 2, false), made("young", 3, true)}, "old", []string{"young"}},
		{"none of another pod, or that the pod asks for", "", []*resourceapi.ResourceClaim{foreign, asked}, "", nil},
		{"the one in the status, whoever else uses it", "foreign", []*resourceapi.ResourceClaim{foreign, made("old", 2, false)}, "foreign", []string{"old"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "e", ResourceClaimName: new("asked")}}
			if tc.named != "" {
				pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: tc.named}
			}
			mine := slices.DeleteFunc(tc.claims, func(c *resourceapi.ResourceClaim) bool { return !MayUseSpecial(pod, c) })
			kept, left := ChooseSpecial(pod, mine)
			name := ""
			if kept != nil {
				name = kept.Name
			}
			var names []string
			for _, c := range left {
				names = append(names, c.Name)
			}
			if name != tc.kept || !slices.Equal(names, tc.left) {
				t.Errorf("got %q and %q (-want +got):\n%s", name, names, cmp.Diff(tc.left, names))
			}
		})
	}
}
