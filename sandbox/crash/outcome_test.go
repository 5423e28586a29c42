// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/sandboxtest"
)

// blocks is where the service has its devices.
const blocks = "/redfish/v1/CompositionService/ResourceBlocks/"

// twice follows what came about with a second device, and nobody says why.
const twice = " to another device, and no event says why"

func (w *world) runs(p *point) bool {
	pod := w.pod(p.name)
	return pod != nil && pod.Status.Phase == corev1.PodRunning
}

// outcome says in words what became of a point's device, and checks that it is whole.
func (w *world) outcome(t *testing.T, p *point) string {
	t.Helper()
	sees, err := w.Rack().Sees(p.name)
	if err != nil {
		t.Fatal(err)
	}
	if p.leaving {
		if len(sees) > 0 || len(w.attachmentsOn(p.name)) > 0 {
			return "attached"
		}
		return freed
	}
	pod, claim := w.pod(p.name), w.claim(p.name)
	switch {
	case pod == nil || claim == nil || pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != p.name:
		return "pending"
	case len(sees) != 1:
		return fmt.Sprintf("bound, and the host sees %d devices", len(sees))
	}
	attachments := w.attachmentsOn(p.name)
	if len(attachments) != 1 || fabric.Phase(attachments[0].Status.Phase) != fabric.PhaseSettled || attachments[0].Status.Target == nil {
		return fmt.Sprintf("bound, with attachments %v", w.phases(p.name))
	}
	a := attachments[0]
	if a.Spec.Device != blocks+sees[0].Block {
		t.Errorf("attachment %s is of %s, and the host sees %s", a.Name, a.Spec.Device, sees[0].Block)
	}
	if a.Spec.Claim.UID != claim.UID {
		t.Errorf("attachment %s is for claim %s, want %s", a.Name, a.Spec.Claim.UID, claim.UID)
	}
	w.checkAllocation(t, claim, sees[0].UUID)
	if r := claim.Status.Allocation; r != nil && r.Devices.Results[0].Device != a.Status.Target.Device {
		t.Errorf("the claim has %s, and the attachment's target is %s", r.Devices.Results[0].Device, a.Status.Target.Device)
	}
	w.mu.Lock()
	made := len(w.made[string(claim.UID)])
	w.mu.Unlock()
	switch made {
	case 1:
		return bound
	case 2:
		if reason := w.reason(t, p); reason != "" {
			return "bound to another device: " + reason
		}
		return bound + twice
	default:
		return fmt.Sprintf("bound after %d attachments", made)
	}
}

// checkAllocation checks that the claim has the device that its node publishes with
// the identity.
func (w *world) checkAllocation(t *testing.T, claim *resourceapi.ResourceClaim, uuid string) {
	t.Helper()
	state, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil {
		t.Error("the pod runs, and its claim is not allocated")
		return
	}
	has := claim.Status.Allocation.Devices.Results[0]
	for i := range state.ResourceSlices {
		spec := &state.ResourceSlices[i].Spec
		if spec.Driver != has.Driver || spec.Pool.Name != has.Pool {
			continue
		}
		for _, d := range spec.Devices {
			if value := d.Attributes["uuid"].StringValue; d.Name == has.Device && value != nil && strings.EqualFold(*value, uuid) {
				return
			}
		}
	}
	t.Errorf("the claim has %s of pool %s, which is not the attached device, UUID %s", has.Device, has.Pool, uuid)
}

// reason is why the first device of a point did not come, as an event of the claim
// says for people, in one word; empty where none does.
func (w *world) reason(t *testing.T, p *point) string {
	t.Helper()
	events, err := w.Client().EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uid := w.claim(p.name).UID
	for i := range events.Items {
		e := &events.Items[i]
		if e.Regarding.UID == uid && e.Reason == "DeviceAttachFailed" && strings.Contains(e.Note, string(fabric.ReasonRefused)+": ") {
			return string(fabric.ReasonRefused)
		}
	}
	return ""
}

// checkBooks checks the whole cluster.
func (w *world) checkBooks(state *cluster.State) {
	w.t.Helper()
	for _, violation := range sandbox.Verify(state) {
		w.t.Errorf("allocation: %v", violation)
	}
	for i := range state.DeviceTaintRules {
		w.t.Errorf("DeviceTaintRule %s is left over", state.DeviceTaintRules[i].Name)
	}
	w.checkOffers()
	shelf, err := w.Rack().ShelfState()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.points {
		composed := 0
		for id, block := range shelf {
			if block.Host == "" && block.Reserved {
				w.t.Errorf("device %s is free, and reserved for ever", id)
			}
			if block.Host == p.name {
				composed++
			}
		}
		if sees, err := w.Rack().Sees(p.name); err != nil || composed != len(sees) {
			w.t.Errorf("host %s sees %d devices, and the manager has %d there: %v", p.name, len(sees), composed, err)
		}
	}
}

// checkOffers waits until exactly the free devices are offered, to everybody: the controller
// counts a device as free before its slices say so.
func (w *world) checkOffers() {
	w.t.Helper()
	limit := time.After(sandboxtest.Limit)
	for {
		wrong := w.wrongOffers()
		if wrong == "" {
			return
		}
		select {
		case <-limit:
			w.t.Error(wrong)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wrongOffers says which devices are offered and not free, or the other way round, or with
// a taint; empty where all is well.
func (w *world) wrongOffers() string {
	w.t.Helper()
	state, err := w.State(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	shelf, err := w.Rack().ShelfState()
	if err != nil {
		w.t.Fatal(err)
	}
	var want, got []string
	for id, block := range shelf {
		if block.Host == "" {
			want = append(want, fabric.DeviceName(fabric.DeviceRef(blocks+id)))
		}
	}
	for _, slice := range state.ResourceSlices {
		if slice.Spec.Pool.Name != fabric.PoolName("shelf") {
			continue
		}
		for _, d := range slice.Spec.Devices {
			got = append(got, d.Name)
			if len(d.Taints) > 0 {
				return fmt.Sprintf("device %s is offered with taints %v", d.Name, d.Taints)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Sprintf("offered: %v, free: %v", got, want)
	}
	return ""
}

// tidyUp deletes all that is left and checks that every device is free again.
func (w *world) tidyUp() {
	w.t.Helper()
	for i := range w.points {
		if p := &w.points[i]; !p.leaving {
			w.remove(p)
		}
	}
	w.checkBooks(w.settle().State)
	for _, p := range w.points {
		if sees, err := w.Rack().Sees(p.name); err != nil || len(sees) > 0 {
			w.t.Errorf("host %s still sees %v: %v", p.name, sees, err)
		}
	}
	if n := len(w.attachments.List()); n > 0 {
		w.t.Errorf("%d attachments are left over", n)
	}
}

// describe is for failures.
func (w *world) describe(p *point) string {
	var b strings.Builder
	if claim := w.claim(p.name); claim != nil {
		fmt.Fprintf(&b, "\nclaim %s: allocation %+v, reserved for %v, devices %+v", claim.UID, claim.Status.Allocation, claim.Status.ReservedFor, claim.Status.Devices)
	}
	if pod := w.pod(p.name); pod != nil {
		fmt.Fprintf(&b, "\npod: node %q, %s, %+v", pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions)
	}
	for _, a := range w.attachmentsOn(p.name) {
		fmt.Fprintf(&b, "\nattachment %s of %s: %+v", a.Name, a.Spec.Device, a.Status)
	}
	sees, err := w.Rack().Sees(p.name)
	fmt.Fprintf(&b, "\nhost sees %+v, %v", sees, err)
	return b.String()
}
