// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// taken is a node with n devices, all held, and the refusal that follows.
func taken(n int, hold func(i int) []inventory.Hold) (*inventory.View, *alloc.Refusal) {
	inv := inventory.New()
	inv.SetSlice(gpus(n, nil))
	for i := range n {
		inv.SetHolds(fmt.Sprint(i), hold(i))
	}
	view := inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	return view, &alloc.Refusal{Requests: []alloc.RequestReport{{
		RequestRef: gpu, Wants: n, Dropped: map[alloc.Stage][]*inventory.Device{alloc.StageFree: view.Pools[0].Devices},
	}}}
}

func gpuID(i int) inventory.DeviceID {
	return inventory.DeviceID{Driver: "gpu.example.com", Pool: "n1", Device: fmt.Sprint("gpu-", i)}
}

func dedicated(i int) []inventory.Hold {
	return []inventory.Hold{{Device: gpuID(i), Holder: inventory.Holder{Namespace: "ns", Claim: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}}}
}

// free lists the devices of a view that nobody holds.
func free(view *inventory.View) map[int]bool {
	found := map[int]bool{}
	for i, o := range view.Pools[0].Use.Taken {
		if o == nil {
			found[i] = true
		}
	}
	return found
}

func TestRemediesAreFew(t *testing.T) {
	view, refusal := taken(6, dedicated)
	got := explain.Remedies(refusal, view, func(v *inventory.View) bool { return free(v)[1] && free(v)[4] })
	if diff := cmp.Diff([]explain.Remedy{{Free: []inventory.DeviceID{gpuID(1), gpuID(4)}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(free(view)) != 0 {
		t.Error("the view changed")
	}
}

// TestRemedyIsOneOfMany: one device is enough, and it is none of those that are tried
// alone. Nobody is to give up another for it.
func TestRemedyIsOneOfMany(t *testing.T) {
	view, refusal := taken(12, dedicated)
	got := explain.Remedies(refusal, view, func(v *inventory.View) bool { return free(v)[10] })
	if diff := cmp.Diff([]explain.Remedy{{Free: []inventory.DeviceID{gpuID(10)}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRemediesAreBounded(t *testing.T) {
	view, refusal := taken(100, dedicated)
	for name, fits := range map[string]func(*inventory.View) bool{
		"never": func(*inventory.View) bool { return false },
		"all":   func(v *inventory.View) bool { return len(free(v)) == 100 },
	} {
		attempts := 0
		explain.Remedies(refusal, view, func(v *inventory.View) bool {
			attempts++
			return fits(v)
		})
		if attempts > explain.Attempts {
			t.Errorf("%s: solved %d times", name, attempts)
		}
	}
}

// TestRemedyFreesShares: a device is free once all its shares are.
func TestRemedyFreesShares(t *testing.T) {
	view, refusal := taken(2, func(i int) []inventory.Hold {
		holds := append(dedicated(i), dedicated(i)...)
		holds[0].ShareID, holds[1].ShareID = "a", "b"
		return holds
	})
	got := explain.Remedies(refusal, view, func(v *inventory.View) bool { return free(v)[1] })
	if diff := cmp.Diff([]explain.Remedy{{Free: []inventory.DeviceID{gpuID(1)}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNoRemedyWithoutCause: nothing is tried where nothing can be changed.
func TestNoRemedyWithoutCause(t *testing.T) {
	inv := inventory.New()
	inv.SetSlice(gpus(2, nil))
	view := inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	refusal := &alloc.Refusal{Requests: []alloc.RequestReport{{RequestRef: gpu, Candidates: view.Pools[0].Devices}}}
	if got := explain.Remedies(refusal, view, func(*inventory.View) bool { t.Error("solved again"); return true }); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestTolerantRemedy: taints that only warn are no obstacle, and the time at
// which a taint was set does not tell taints apart.
func TestTolerantRemedy(t *testing.T) {
	none := resourceapi.DeviceTaint{Key: "note", Effect: resourceapi.DeviceTaintEffectNone}
	late := taint("dirty")
	late.TimeAdded = &metav1.Time{}
	inv := inventory.New()
	inv.SetSlice(pool("gpu", tainted(device("gpu-0"), none, taint("dirty")), tainted(device("gpu-1"), late)))
	view := inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	refusal := &alloc.Refusal{Requests: []alloc.RequestReport{{
		RequestRef: gpu, Dropped: map[alloc.Stage][]*inventory.Device{alloc.StageTaints: view.Pools[0].Devices},
	}}}
	got := explain.Remedies(refusal, view, func(v *inventory.View) bool {
		return len(v.Pools[0].Devices[0].Taints) == 1 && len(v.Pools[0].Devices[1].Taints) == 0
	})
	if diff := cmp.Diff([]explain.Remedy{{Tolerate: []resourceapi.DeviceTaint{taint("dirty")}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(view.Pools[0].Devices[0].Taints) != 2 {
		t.Error("the view changed")
	}
}
