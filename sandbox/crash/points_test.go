// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/service"
)

// point is where a device, its claim and its pod are when a part is killed. Each
// has a node of its own.
type point struct {
	// name is that of the node, the claim and the pod.
	name string
	// phase is that of the attachment, empty where there is none yet.
	phase fabric.Phase
	// when says in words where in the phase that is.
	when string
	// matches is the write that is kept back, nil for a phase that stays by itself.
	matches func(*write) bool
	// wait has who writes wait.
	wait bool
	// atWork lets the write through, and the part is killed once the phase is seen.
	atWork bool
	// fault is what the service is told to do wrong.
	fault *service.Fault
	// leaving says that the pod is deleted once it runs.
	leaving bool
	// want is the end, in every column.
	want string
}

// What comes out.
const (
	// bound: the pod runs with the device that was attached for its claim first.
	bound = "bound"
	// elsewhere: that one failed for a reason that was told, and the pod runs with
	// another.
	elsewhere = "bound to another device: Refused"
	// freed: the device is free, and offered.
	freed = "free"
)

// points are in the order of a device that comes and goes. Every phase that there is
// must be among them.
func points() []point {
	return []point{
		{name: "no-intent", phase: fabric.PhaseNone, when: "the claim is allocated, no intent is written",
			matches: creates, want: bound},
		{name: "unguarded", phase: fabric.PhaseAllocated, when: "no guard is written", matches: guards, want: bound},
		{name: "unseen", phase: fabric.PhaseAllocated, when: "the scheduler has not acknowledged the guard", matches: acknowledges, want: bound},
		{name: "allocated", phase: fabric.PhaseAllocated, when: "the guard is acknowledged", matches: leaves(fabric.PhaseAllocated), want: bound},
		{name: "guarded", phase: fabric.PhaseGuarded, matches: leaves(fabric.PhaseGuarded), want: bound},
		{name: "attach-at-work", phase: fabric.PhaseAttaching, when: "the manager is at work",
			matches: enters(fabric.PhaseAttaching), atWork: true, want: bound},
		{name: "attaching", phase: fabric.PhaseAttaching, when: "the manager has done it", matches: leaves(fabric.PhaseAttaching), want: bound},
		{name: "attach-unknown", phase: fabric.PhaseAttachUnknown, matches: leaves(fabric.PhaseAttachUnknown),
			fault: &service.Fault{Kind: service.FaultLostReply, Operation: service.OperationAttach}, want: bound},
		{name: "attached", phase: fabric.PhaseAttached, matches: leaves(fabric.PhaseAttached), want: bound},
		{name: "untold", phase: fabric.PhaseVisible, when: "the claim is not told", matches: tells(v1alpha1.ConditionAttached), want: bound},
		{name: "between", phase: fabric.PhaseVisible, when: "between the two writes of the hand-over",
			matches: allocatesTarget, wait: true, want: bound},
		{name: "visible", phase: fabric.PhaseVisible, when: "the claim has the device", matches: leaves(fabric.PhaseVisible), want: bound},
		{name: "handed-over", phase: fabric.PhaseHandedOver, matches: leaves(fabric.PhaseHandedOver), want: bound},
		{name: "unbound", phase: fabric.PhaseSettled, when: "the pod is not bound", matches: binds, wait: true, want: bound},
		{name: "settled", phase: fabric.PhaseSettled, when: "the pod runs", want: bound},
		{name: "failed-untold", phase: fabric.PhaseFailed, when: "the claim is not told", matches: tells(v1alpha1.ConditionAttachFailed),
			fault: &service.Fault{Kind: service.FaultRefused, Operation: service.OperationAttach}, want: elsewhere},
		{name: "failed", phase: fabric.PhaseFailed, when: "the claim is told", matches: leaves(fabric.PhaseFailed),
			fault: &service.Fault{Kind: service.FaultRefused, Operation: service.OperationAttach}, want: elsewhere},
		{name: "retained", phase: fabric.PhaseRetained, matches: leaves(fabric.PhaseRetained), leaving: true, want: freed},
		{name: "draining", phase: fabric.PhaseDraining, matches: leaves(fabric.PhaseDraining), leaving: true, want: freed},
		{name: "detach-at-work", phase: fabric.PhaseDetaching, when: "the manager is at work",
			matches: enters(fabric.PhaseDetaching), atWork: true, leaving: true, want: freed},
		{name: "detaching", phase: fabric.PhaseDetaching, when: "the manager has done it",
			matches: leaves(fabric.PhaseDetaching), leaving: true, want: freed},
		{name: "detach-unknown", phase: fabric.PhaseDetachUnknown, matches: leaves(fabric.PhaseDetachUnknown), leaving: true,
			fault: &service.Fault{Kind: service.FaultLostReply, Operation: service.OperationDetach}, want: freed},
		{name: "released", phase: fabric.PhaseReleased, matches: ends, leaving: true, want: freed},
	}
}

// of narrows what is held to what concerns the point.
func (p *point) of(w *write) bool {
	switch w.resource {
	case "deviceattachments", "deviceattachments/status":
		return w.text("spec", "node") == p.name && p.matches(w)
	case "devicetaintrules", "devicetaintrules/status":
		return w.text("spec", "deviceSelector", "pool") == p.name && p.matches(w)
	case "resourceclaims/status", "pods/binding":
		return w.name == p.name && p.matches(w)
	default:
		return false
	}
}

func phaseIn(o *unstructured.Unstructured) fabric.Phase {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if phase == "" {
		return fabric.PhaseAllocated
	}
	return fabric.Phase(phase)
}

func creates(w *write) bool { return w.resource == "deviceattachments" && w.operation == "CREATE" }

func guards(w *write) bool { return w.resource == "devicetaintrules" && w.operation == "CREATE" }

func acknowledges(w *write) bool {
	return w.resource == "devicetaintrules/status" && w.user == byScheduler
}

func leaves(phase fabric.Phase) func(*write) bool {
	return func(w *write) bool {
		return w.resource == "deviceattachments/status" && phaseIn(w.old) == phase && phaseIn(w.object) != phase
	}
}

func enters(phase fabric.Phase) func(*write) bool {
	return func(w *write) bool {
		return w.resource == "deviceattachments/status" && phaseIn(w.old) != phase && phaseIn(w.object) == phase
	}
}

// ends is an attachment that loses its finalizer.
func ends(w *write) bool {
	return w.resource == "deviceattachments" && w.operation == "UPDATE" && w.user == byController && phaseIn(w.old) == fabric.PhaseReleased
}

func binds(w *write) bool { return w.resource == "pods/binding" }

// tells is the controller that sets a condition of a claim's device.
func tells(condition string) func(*write) bool {
	return func(w *write) bool {
		if w.resource != "resourceclaims/status" || w.user != byController {
			return false
		}
		claim := claimIn(w.object)
		return claim != nil && slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return apimeta.IsStatusConditionTrue(d.Conditions, condition)
		})
	}
}

// allocatesTarget is the second of the two writes that hand a device over: the claim
// had no allocation, and gets the device on its node.
func allocatesTarget(w *write) bool {
	if w.resource != "resourceclaims/status" || w.user != byScheduler {
		return false
	}
	before, after := claimIn(w.old), claimIn(w.object)
	return before != nil && after != nil && before.Status.Allocation == nil && after.Status.Allocation != nil &&
		after.Status.Allocation.Devices.Results[0].Pool == w.name
}

func claimIn(o *unstructured.Unstructured) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, claim); err != nil {
		return nil
	}
	return claim
}
