// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/show"
)

// shelf is the pool of a fabric: one device attached for the claim with the UID "u",
// one that is free.
func shelf() *resourceapi.ResourceSlice {
	identity := string(inventory.IdentityAttribute)
	s := pool("gpu",
		device("f0", identity, "uuid", "uuid", "GPU-1", string(inventory.ClaimAttribute), "u"),
		device("f1", identity, "uuid", "uuid", "GPU-2"))
	s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.AllNodes = "shelf", inventory.FabricPool("shelf"), nil, ptr(true)
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fabric.kerf.dev/v1alpha1", Kind: "Fabric", Name: "shelf", Controller: ptr(true)}}
	return s
}

func arriving(uid string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: inventory.ArrivingTaint, Value: uid, Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// reserved is a node with one device that is kept, one among which another claim's
// arrives, and one with both.
func reserved() []*resourceapi.ResourceSlice {
	return pools(shelf(), pool("gpu",
		device("gpu-0", "uuid", "GPU-1"),
		tainted(device("gpu-1"), arriving("w")),
		tainted(device("gpu-2", "uuid", "GPU-1"), arriving("u"))))
}

func claimants(uid types.UID) (inventory.Holder, bool) {
	return inventory.Holder{Namespace: "ns", Claim: "train", UID: uid}, uid == "u"
}

// TestReservedDevices: what a fabric reserves for a claim is told in words, with the
// claim where its name may be told.
func TestReservedDevices(t *testing.T) {
	inv := inventory.New()
	inv.SyncSlices(reserved())
	trees := func(o explain.Options) string {
		var b strings.Builder
		for p, use := range inv.Snapshot().Pools {
			tree := show.PoolOf(p, use, o)
			b.WriteString(tree.Text())
		}
		return b.String()
	}
	const known = `gpu.example.com/fabric.kerf.dev/shelf, generation 1, all nodes
├─ f0: offered
└─ f1: offered
gpu.example.com/n1, generation 1, node n1
├─ gpu-0: tainted; kept for claim ns/train
├─ gpu-1: arriving; a device arrives for another claim (w)
└─ gpu-2: tainted; kept for claim ns/train
`
	if got := trees(explain.Options{Claimant: claimants}); got != known {
		t.Errorf("got:\n%swant:\n%s", got, known)
	}
	hidden := strings.ReplaceAll(known, "claim ns/train", "another claim (u)")
	for name, o := range map[string]explain.Options{
		"unknown":   {},
		"invisible": {Claimant: claimants, Visible: func(namespace string) bool { return namespace != "ns" }},
	} {
		if got := trees(o); got != hidden {
			t.Errorf("%s: got:\n%swant:\n%s", name, got, hidden)
		}
	}
}

// TestReservedRefusal: nobody is advised to tolerate what reserves a device for
// somebody else, and no claim is named twice.
func TestReservedRefusal(t *testing.T) {
	c := cluster{slices: reserved()[1:], claim: claim(request("gpu", 1))}
	c.slices[0].Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: inventory.ClaimTaint, Value: "u", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	refusal, o := c.refuse(t)
	o.Claimant = claimants
	if len(o.Remedies) > 0 {
		t.Errorf("remedies %+v, want none", o.Remedies)
	}
	const want = `gpu: needs 1 device, none of 3 that match is left: 3 tainted (a device arrives for another claim (w), kept for claim ns/train)
  gpu needs 1: devices 3 → taints 0
    gpu-0 is kept for claim ns/train
    gpu-1 is tainted (a device arrives for another claim (w))
    gpu-2 is tainted (a device arrives for claim ns/train)
`
	if got := explain.Details(refusal, o); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestReservedSource: the taint comes from the fabric's device, not from the slice of
// the node.
func TestReservedSource(t *testing.T) {
	inv := inventory.New()
	inv.SyncSlices(reserved())
	pool, use := inv.Snapshot().Pool(inventory.PoolID{Driver: "gpu.example.com", Pool: "n1"})
	tree := show.PoolOf(pool, use, explain.Options{})
	if got := tree.Devices[0].Taints[0]; got.Offer != "gpu.example.com/fabric.kerf.dev/shelf/f0" || got.Slice != "" {
		t.Errorf("got %+v", got)
	}
}
