// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// TestOneOfSeveral: where a dump has several claims for one place, it is the same
// one each time.
func TestOneOfSeveral(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: v1.PodSpec{
		ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}},
	}}
	d := dump.New()
	for _, name := range []string{"d", "b", "a", "c", "e"} {
		d.ResourceClaims = append(d.ResourceClaims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "2", Annotations: map[string]string{resourceapi.PodResourceClaimAnnotation: "gpu"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "1", Controller: new(true)}},
		}})
	}
	world := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: selector.New()})
	for range 50 {
		if claim := world.ClaimByUID("2"); claim.Name != "a" {
			t.Fatalf("the claim with UID 2 is %s, want a", claim.Name)
		}
		if claims, _ := world.Claims(pod); len(claims) != 1 || claims[0].Object.Name != "a" {
			t.Fatalf("the claims of the pod are %+v, want a", claims)
		}
	}
}
