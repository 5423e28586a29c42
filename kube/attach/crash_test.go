// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
)

// TestCrashInEachPhase ends the loop when each phase has been written, and follows
// the device to its claim and back: it is attached once, and free in the end.
func TestCrashInEachPhase(t *testing.T) {
	for _, info := range fabric.Phases() {
		switch info.Phase {
		case fabric.PhaseAllocated: // not written
			continue
		case fabric.PhaseFailed: // see TestCrashWhenFailed
			continue
		}
		t.Run(string(info.Phase), func(t *testing.T) {
			r := newRig(t)
			switch info.Phase {
			case fabric.PhaseAttachUnknown:
				r.must(r.service.AddFault(description.Fault{Kind: description.FaultLostReply, Operation: description.OperationAttach}))
			case fabric.PhaseDetachUnknown:
				r.must(r.service.AddFault(description.Fault{Kind: description.FaultLostReply, Operation: description.OperationDetach}))
			}
			r.crashAt.Store(string(info.Phase))
			r.thereAndBack()
			if n := r.crashes.Load(); n != 1 {
				t.Errorf("the loop has crashed %d times, want once", n)
			}
		})
	}
}

// thereAndBack follows a device to a claim and back, through crashes.
func (r *rig) thereAndBack() {
	r.t.Helper()
	eventually := func(what string, holds func() bool) {
		r.t.Helper()
		r.eventually(what, func() bool {
			r.revive()
			if n := len(r.service.Sees("host-a")) + len(r.service.Sees("host-b")); n > 1 {
				r.t.Fatalf("%d devices are attached for one claim", n)
			}
			return holds()
		})
	}
	claim := r.claim("train", "gpu-2", "node-a")
	eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	r.wantHandOver(claim, v1alpha1.DeviceReference{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"})
	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	eventually("the device is handed over", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	r.must(r.client.Delete(r.t.Context(), claim))
	eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 })
	eventually("nothing is left of it", func() bool { return len(r.attachments()) == 0 && len(r.rules()) == 0 })
	eventually("it is offered again", func() bool { return len(r.offered()) == 3 })
}

// TestCrashWhenFailed has the claim be told all the same.
func TestCrashWhenFailed(t *testing.T) {
	r := newRig(t)
	r.must(r.service.AddFault(description.Fault{Kind: description.FaultRefused, Operation: description.OperationAttach, Times: -1}))
	r.crashAt.Store(string(fabric.PhaseFailed))
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the claim is failed", func() bool { r.revive(); r.get(claim); return failed(claim) })
	if n := r.crashes.Load(); n != 1 {
		t.Errorf("the loop has crashed %d times, want once", n)
	}
	r.must(r.client.Delete(t.Context(), claim))
	// The claim may have been failed by the loop that ended.
	r.eventually("nothing is left of it", func() bool { r.revive(); return len(r.attachments()) == 0 && len(r.rules()) == 0 })
}
