// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/simulate"
)

// gpuUser is a pod with a GPU as an extended resource.
func gpuUser() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "a", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("1"), "example.com/gpu": resource.MustParse("1"),
		}},
	}}}}
}

// A pod whose status names no claim yet has the oldest of those that were made for it,
// in whatever order they come.
func TestClaimsTakesTheOldestSpecial(t *testing.T) {
	pod := gpuUser()
	d := dump.New()
	d.Pods = []*v1.Pod{pod}
	for i, name := range []string{"young", "old-b", "old-a", "later", "latest"} {
		c := claim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, "example.com/gpu", "gpu")})
		c.Name, c.GenerateName = name, "p-extended-resources-"
		c.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, max(i, 2), 0, 0, 0, 0, time.UTC))
		c.Status.Allocation = &resourceapi.AllocationResult{}
		d.ResourceClaims = append(d.ResourceClaims, c)
	}
	d.ResourceClaims[0].CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC))
	for range 20 {
		claims, _ := simulate.NewWorld(&d.Objects, simulate.Options{}).Claims(pod)
		if len(claims) != 1 || claims[0].Object.Name != "old-a" {
			t.Fatalf("got claims %v, want that of old-a", claims)
		}
	}
}

// A claim that is being deleted is not the one for the extended resources of its pod any
// more, though the status names it: as in the scheduler, another one takes its place.
func TestClaimsLeaveTheDeletedSpecial(t *testing.T) {
	pod := gpuUser()
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "leaving"}
	d := dump.New()
	for _, name := range []string{"leaving", "stays"} {
		c := having(claim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, "example.com/gpu", "gpu")}))
		c.Name, c.GenerateName = name, "p-extended-resources-"
		d.ResourceClaims = append(d.ResourceClaims, c)
	}
	d.ResourceClaims[0].DeletionTimestamp = &metav1.Time{}
	claims, _ := simulate.NewWorld(&d.Objects, simulate.Options{}).Claims(pod)
	if len(claims) != 1 || claims[0].Object.Name != "stays" {
		t.Errorf("got claims %v, want the one that stays", claims)
	}
}

// TestForeignSpecialClaim: annotation and owner can be copied, and make a claim nobody's
// but its user's.
func TestForeignSpecialClaim(t *testing.T) {
	pod := gpuUser()
	for _, tc := range []struct {
		what    string
		foreign func(*resourceapi.ResourceClaim)
		want    int
	}{
		{"kerf-scheduler's", func(c *resourceapi.ResourceClaim) { c.Name = claim.SpecialName("p", "1") }, 1},
		{"the stock scheduler's", func(c *resourceapi.ResourceClaim) { c.GenerateName = "p-extended-resources-" }, 1},
		{"named by the status", func(c *resourceapi.ResourceClaim) { c.Name = "named" }, 1},
		{"a copy", func(*resourceapi.ResourceClaim) {}, 0},
		{"of a former pod", func(c *resourceapi.ResourceClaim) { c.Name = claim.SpecialName("p", "0") }, 0},
		{"used by another", func(c *resourceapi.ResourceClaim) {
			c.GenerateName = "p-extended-resources-"
			having(c, "q")
		}, 0},
	} {
		t.Run(tc.what, func(t *testing.T) {
			rc := having(claim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, "example.com/gpu", "gpu")}))
			rc.Name = "copied"
			tc.foreign(rc)
			pod := pod.DeepCopy()
			if rc.Name == "named" {
				pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "named"}
			}
			d := dump.New()
			d.ResourceClaims = []*resourceapi.ResourceClaim{rc}
			claims, _ := simulate.NewWorld(&d.Objects, simulate.Options{}).Claims(pod)
			if len(claims) != tc.want {
				t.Errorf("got claims %v, want %d", claims, tc.want)
			}
			if claim.UsesSpecial(pod, rc) != (tc.want > 0) {
				t.Errorf("the pod uses it: got %t", tc.want == 0)
			}
		})
	}
}
