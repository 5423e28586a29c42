// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"flag"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
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
	fault *description.Fault
	// leaving says that the pod is deleted once it runs.
	leaving bool
	// want is the end, in every column but that of a scheduler that lives on while it
	// is cut off, where it is survives if that is set.
	want, survives string
}

// What comes out.
const (
	// bound: the pod runs with the device that was attached for its claim first.
	bound = "bound"
	// elsewhere: that one failed for a reason that was told, and the pod runs with
	// another.
	elsewhere = "bound to another device: Refused"
	// again: the attempt to schedule the pod failed and gave the device up. The next
	// one finds it, or takes another if it is on its way back already.
	again = "bound in the next attempt"
	// freed: the device is free, and offered.
	freed = "free"
)

// points are in the order of a device that comes and goes. Every phase that there is
// must be among them.
func points() []point {
	return slices.Concat(arriving(), present(), leaving())
}

var only = flag.String("points", "", "only these points of the matrix, separated by commas")

// chosen are the points to run.
func chosen() []point {
	names := strings.Split(*only, ",")
	return slices.DeleteFunc(points(), func(p point) bool { return *only != "" && !slices.Contains(names, p.name) })
}

// lost and refused are what the service is told to do wrong.
func lost(operation description.Operation) *description.Fault {
	return &description.Fault{Kind: description.FaultLostReply, Operation: operation}
}

func refused() *description.Fault {
	return &description.Fault{Kind: description.FaultRefused, Operation: description.OperationAttach}
}

// arriving is the way to the machine.
func arriving() []point {
	return []point{
		{name: "unallocated", phase: fabric.PhaseNone, when: "the claim is not allocated", matches: allocates, wait: true, want: bound},
		{name: "no-intent", phase: fabric.PhaseNone, when: "the claim is allocated, no intent is written", matches: creates, want: bound},
		{name: "unguarded", phase: fabric.PhaseAllocated, when: "no guard is written", matches: guards(fabric.GuardPool), want: bound},
		{name: "unseen", phase: fabric.PhaseAllocated, when: "the scheduler has not acknowledged the guard", matches: acknowledges, want: bound},
		{name: "allocated", phase: fabric.PhaseAllocated, when: "the guard is acknowledged", matches: leaves(fabric.PhaseAllocated), want: bound},
		{name: "guarded", phase: fabric.PhaseGuarded, matches: leaves(fabric.PhaseGuarded), want: bound},
		{name: "attach-at-work", phase: fabric.PhaseAttaching, when: "the manager is at work",
			matches: enters(fabric.PhaseAttaching), wait: true, atWork: true, want: bound},
		{name: "attaching", phase: fabric.PhaseAttaching, when: "the manager has done it", matches: leaves(fabric.PhaseAttaching), want: bound},
		{name: "attach-unknown", phase: fabric.PhaseAttachUnknown, when: "the manager's reply was lost",
			matches: leaves(fabric.PhaseAttachUnknown), fault: lost(description.OperationAttach), want: bound},
		{name: "failed-untold", phase: fabric.PhaseFailed, when: "the claim is not told", matches: tells(v1alpha1.ConditionAttachFailed),
			fault: refused(), want: elsewhere},
		{name: "failed", phase: fabric.PhaseFailed, when: "the claim is told", matches: leaves(fabric.PhaseFailed),
			fault: refused(), want: elsewhere},
	}
}

// present is the time at the node.
func present() []point {
	return []point{
		{name: "attached", phase: fabric.PhaseAttached, matches: leaves(fabric.PhaseAttached), want: bound},
		{name: "unnarrowed", phase: fabric.PhaseVisible, when: "the guard is not narrowed", matches: guards(fabric.GuardDevice), want: bound},
		{name: "two-guards", phase: fabric.PhaseVisible, when: "the wide guard is not lifted", matches: lifts(fabric.GuardPool), want: bound},
		{name: "untold", phase: fabric.PhaseVisible, when: "the claim is not told", matches: tells(v1alpha1.ConditionAttached), want: bound},
		{name: "told", phase: fabric.PhaseVisible, when: "the hand-over has not begun", matches: deallocates, wait: true, want: bound},
		{name: "between", phase: fabric.PhaseVisible, when: "between the two writes of the hand-over",
			matches: allocatesTarget, wait: true, want: bound},
		{name: "visible", phase: fabric.PhaseVisible, when: "the claim has the device", matches: leaves(fabric.PhaseVisible), want: bound},
		{name: "unlifted", phase: fabric.PhaseHandedOver, when: "the guard is not lifted", matches: lifts(fabric.GuardDevice), want: bound},
		{name: "handed-over", phase: fabric.PhaseHandedOver, when: "the guard is lifted", matches: leaves(fabric.PhaseHandedOver), want: bound},
		{name: "unbound", phase: fabric.PhaseSettled, when: "the pod is not bound", matches: binds, wait: true, want: bound, survives: again},
		{name: "settled", phase: fabric.PhaseSettled, when: "the pod runs", want: bound},
	}
}

// leaving is the way back.
func leaving() []point {
	all := []point{
		{name: "let-go", phase: fabric.PhaseSettled, when: "the claim has let go", matches: leaves(fabric.PhaseSettled)},
		{name: "retained", phase: fabric.PhaseRetained, matches: leaves(fabric.PhaseRetained)},
		{name: "undrained", phase: fabric.PhaseDraining, when: "no guard is written", matches: guards(fabric.GuardDrain)},
		{name: "draining", phase: fabric.PhaseDraining, when: "the guard is acknowledged", matches: leaves(fabric.PhaseDraining)},
		{name: "detach-at-work", phase: fabric.PhaseDetaching, when: "the manager is at work",
			matches: enters(fabric.PhaseDetaching), wait: true, atWork: true},
		{name: "detaching", phase: fabric.PhaseDetaching, when: "the manager has done it", matches: leaves(fabric.PhaseDetaching)},
		{name: "detach-unknown", phase: fabric.PhaseDetachUnknown, when: "the manager's reply was lost",
			matches: leaves(fabric.PhaseDetachUnknown), fault: lost(description.OperationDetach)},
		{name: "drained", phase: fabric.PhaseReleased, when: "the guard is not lifted", matches: lifts(fabric.GuardDrain)},
		{name: "released", phase: fabric.PhaseReleased, when: "the intent is still there", matches: ends},
		{name: "unfinished", phase: fabric.PhaseReleased, when: "the intent has no finalizer", matches: deletes},
	}
	for i := range all {
		all[i].leaving, all[i].want = true, freed
	}
	return all
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

func deletes(w *write) bool { return w.resource == "deviceattachments" && w.operation == "DELETE" }

// guards is a rule that is made, lifts one that is taken away.
func guards(kind fabric.Guard) func(*write) bool {
	return func(w *write) bool { return isRule(w, "CREATE", kind) }
}

func lifts(kind fabric.Guard) func(*write) bool {
	return func(w *write) bool { return isRule(w, "DELETE", kind) }
}

func isRule(w *write, operation string, kind fabric.Guard) bool {
	return w.resource == "devicetaintrules" && w.operation == operation && w.text("metadata", "labels", v1alpha1.GuardLabel) == string(kind)
}

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

// allocation is a write of the scheduler that changes a claim's allocation: the pools
// of its device before and after, empty where it has none.
func allocation(w *write) (before, after string, changes bool) {
	if w.resource != "resourceclaims/status" || w.user != byScheduler {
		return "", "", false
	}
	before, after = poolOf(claimIn(w.old)), poolOf(claimIn(w.object))
	return before, after, before != after
}

func poolOf(claim *resourceapi.ResourceClaim) string {
	if claim == nil || claim.Status.Allocation == nil {
		return ""
	}
	return claim.Status.Allocation.Devices.Results[0].Pool
}

// allocates is the first that a claim gets, a device of the fabric.
func allocates(w *write) bool {
	before, after, changes := allocation(w)
	return changes && before == "" && after == fabric.PoolName("shelf")
}

// deallocates is the first of the two writes that hand a device over, allocatesTarget
// the second: the claim has no allocation, and gets the device on its node.
func deallocates(w *write) bool {
	_, after, changes := allocation(w)
	return changes && after == ""
}

func allocatesTarget(w *write) bool {
	before, after, changes := allocation(w)
	return changes && before == "" && after == w.name
}

func claimIn(o *unstructured.Unstructured) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, claim); err != nil {
		return nil
	}
	return claim
}
