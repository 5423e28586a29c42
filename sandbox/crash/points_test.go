// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"cmp"
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
	"kerf.dev/kerf/sandbox"
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
	// hold is the write that is kept back, without a part for a phase that stays by
	// itself.
	hold sandbox.Hold
	// wait has the write wait, as for a slow server. Others are refused and tried again.
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
		{name: "unallocated", phase: fabric.PhaseNone, when: "the claim is not allocated", hold: allocates, wait: true, want: bound},
		{name: "no-intent", phase: fabric.PhaseNone, when: "the claim is allocated, no intent is written", hold: creates, want: bound},
		{name: "unguarded", phase: fabric.PhaseAllocated, when: "no guard is written", hold: guards(fabric.GuardPool), want: bound},
		{name: "unseen", phase: fabric.PhaseAllocated, when: "the scheduler has not acknowledged the guard", hold: acknowledges, want: bound},
		{name: "allocated", phase: fabric.PhaseAllocated, when: "the guard is acknowledged", hold: leaves(fabric.PhaseAllocated), want: bound},
		{name: "guarded", phase: fabric.PhaseGuarded, hold: leaves(fabric.PhaseGuarded), want: bound},
		{name: "attach-at-work", phase: fabric.PhaseAttaching, when: "the manager is at work",
			hold: enters(fabric.PhaseAttaching), wait: true, atWork: true, want: bound},
		{name: "attaching", phase: fabric.PhaseAttaching, when: "the manager has done it", hold: leaves(fabric.PhaseAttaching), want: bound},
		{name: "attach-unknown", phase: fabric.PhaseAttachUnknown, when: "the manager's reply was lost",
			hold: leaves(fabric.PhaseAttachUnknown), fault: lost(description.OperationAttach), want: bound},
		{name: "failed-untold", phase: fabric.PhaseFailed, when: "the claim is not told", hold: tells(v1alpha1.ConditionAttachFailed),
			fault: refused(), want: elsewhere},
		{name: "failed", phase: fabric.PhaseFailed, when: "the claim is told", hold: leaves(fabric.PhaseFailed),
			fault: refused(), want: elsewhere},
	}
}

// present is the time at the node.
func present() []point {
	return []point{
		{name: "attached", phase: fabric.PhaseAttached, hold: leaves(fabric.PhaseAttached), want: bound},
		{name: "unnarrowed", phase: fabric.PhaseVisible, when: "the guard is not narrowed", hold: guards(fabric.GuardDevice), want: bound},
		{name: "two-guards", phase: fabric.PhaseVisible, when: "the wide guard is not lifted", hold: lifts(fabric.GuardPool), want: bound},
		{name: "untold", phase: fabric.PhaseVisible, when: "the claim is not told", hold: tells(v1alpha1.ConditionAttached), want: bound},
		{name: "told", phase: fabric.PhaseVisible, when: "the hand-over has not begun", hold: deallocates, wait: true, want: bound},
		{name: "between", phase: fabric.PhaseVisible, when: "between the two writes of the hand-over",
			hold: allocatesTarget, wait: true, want: bound},
		{name: "visible", phase: fabric.PhaseVisible, when: "the claim has the device", hold: leaves(fabric.PhaseVisible), want: bound},
		{name: "unlifted", phase: fabric.PhaseHandedOver, when: "the guard is not lifted", hold: lifts(fabric.GuardDevice), want: bound},
		{name: "handed-over", phase: fabric.PhaseHandedOver, when: "the guard is lifted", hold: leaves(fabric.PhaseHandedOver), want: bound},
		{name: "unbound", phase: fabric.PhaseSettled, when: "the pod is not bound", hold: binds, wait: true, want: bound, survives: again},
		{name: "settled", phase: fabric.PhaseSettled, when: "the pod runs", want: bound},
	}
}

// leaving is the way back.
func leaving() []point {
	all := []point{
		{name: "let-go", phase: fabric.PhaseSettled, when: "the claim has let go", hold: leaves(fabric.PhaseSettled)},
		{name: "retained", phase: fabric.PhaseRetained, hold: leaves(fabric.PhaseRetained)},
		{name: "undrained", phase: fabric.PhaseDraining, when: "no guard is written", hold: guards(fabric.GuardDrain)},
		{name: "draining", phase: fabric.PhaseDraining, when: "the guard is acknowledged", hold: leaves(fabric.PhaseDraining)},
		{name: "detach-at-work", phase: fabric.PhaseDetaching, when: "the manager is at work",
			hold: enters(fabric.PhaseDetaching), wait: true, atWork: true},
		{name: "detaching", phase: fabric.PhaseDetaching, when: "the manager has done it", hold: leaves(fabric.PhaseDetaching)},
		{name: "detach-unknown", phase: fabric.PhaseDetachUnknown, when: "the manager's reply was lost",
			hold: leaves(fabric.PhaseDetachUnknown), fault: lost(description.OperationDetach)},
		{name: "drained", phase: fabric.PhaseReleased, when: "the guard is not lifted", hold: lifts(fabric.GuardDrain)},
		{name: "released", phase: fabric.PhaseReleased, when: "the intent is still there", hold: ends},
		{name: "unfinished", phase: fabric.PhaseReleased, when: "the intent has no finalizer", hold: deletes},
	}
	for i := range all {
		all[i].leaving, all[i].want = true, freed
	}
	return all
}

// held is what is held back at the point: of all such writes, the one for its device.
func (p *point) held() sandbox.Hold {
	h := p.hold
	h.Refuse = !p.wait
	h.Matches = func(r *sandbox.Request) bool { return p.concerns(r) && (p.hold.Matches == nil || p.hold.Matches(r)) }
	return h
}

// concerns tells whether a write is about the point's device, claim or pod.
func (p *point) concerns(r *sandbox.Request) bool {
	switch r.Resource {
	case "deviceattachments", "deviceattachments/status":
		return text(r, "spec", "node") == p.name
	case "devicetaintrules", "devicetaintrules/status":
		return text(r, "spec", "deviceSelector", "pool") == p.name
	default:
		return r.Name == p.name
	}
}

// text is a field of the object as it is to be, or as it is where that is nothing.
func text(r *sandbox.Request, path ...string) string {
	for _, o := range []*unstructured.Unstructured{r.Object, r.Old} {
		if value, _, _ := unstructured.NestedString(o.Object, path...); value != "" {
			return value
		}
	}
	return ""
}

// attachment is a write of the controller about an attachment.
func attachment(verb, subresource string, matches func(before, after fabric.Phase) bool) sandbox.Hold {
	return sandbox.Hold{Part: "controller", Verb: verb, Resource: "deviceattachments" + subresource, Matches: func(r *sandbox.Request) bool {
		return matches(phaseIn(r.Old), phaseIn(r.Object))
	}}
}

func phaseIn(o *unstructured.Unstructured) fabric.Phase {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return cmp.Or(fabric.Phase(phase), fabric.PhaseAllocated)
}

func leaves(phase fabric.Phase) sandbox.Hold {
	return attachment("update", "/status", func(before, after fabric.Phase) bool { return before == phase && after != phase })
}

func enters(phase fabric.Phase) sandbox.Hold {
	return attachment("update", "/status", func(before, after fabric.Phase) bool { return before != phase && after == phase })
}

var (
	creates = sandbox.Hold{Part: "controller", Verb: "create", Resource: "deviceattachments"}
	deletes = sandbox.Hold{Part: "controller", Verb: "delete", Resource: "deviceattachments"}
	// ends is an attachment that loses its finalizer.
	ends         = attachment("update", "", func(before, _ fabric.Phase) bool { return before == fabric.PhaseReleased })
	acknowledges = sandbox.Hold{Part: "scheduler", Verb: "patch", Resource: "devicetaintrules/status"}
	binds        = sandbox.Hold{Part: "scheduler", Verb: "create", Resource: "pods/binding"}
)

// guards is a rule that is made, lifts one that is taken away.
func guards(kind fabric.Guard) sandbox.Hold { return rule("create", kind) }

func lifts(kind fabric.Guard) sandbox.Hold { return rule("delete", kind) }

func rule(verb string, kind fabric.Guard) sandbox.Hold {
	return sandbox.Hold{Part: "controller", Verb: verb, Resource: "devicetaintrules", Matches: func(r *sandbox.Request) bool {
		return text(r, "metadata", "labels", v1alpha1.GuardLabel) == string(kind)
	}}
}

// tells is the controller that sets a condition of a claim's device.
func tells(condition string) sandbox.Hold {
	return sandbox.Hold{Part: "controller", Verb: "update", Resource: "resourceclaims/status", Matches: func(r *sandbox.Request) bool {
		claim := claimIn(r.Object)
		return claim != nil && slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return apimeta.IsStatusConditionTrue(d.Conditions, condition)
		})
	}}
}

// allocation is a write of the scheduler that changes a claim's allocation. It matches by
// the pools of the claim's device before and after, empty where it has none.
func allocation(matches func(name, before, after string) bool) sandbox.Hold {
	return sandbox.Hold{Part: "scheduler", Verb: "update", Resource: "resourceclaims/status", Matches: func(r *sandbox.Request) bool {
		before, after := poolOf(claimIn(r.Old)), poolOf(claimIn(r.Object))
		return before != after && matches(r.Name, before, after)
	}}
}

func poolOf(claim *resourceapi.ResourceClaim) string {
	if claim == nil || claim.Status.Allocation == nil {
		return ""
	}
	return claim.Status.Allocation.Devices.Results[0].Pool
}

var (
	// allocates is the first that a claim gets, a device of the fabric.
	allocates = allocation(func(_, before, after string) bool { return before == "" && after == fabric.PoolName("shelf") })
	// deallocates is the first of the two writes that hand a device over, allocatesTarget
	// the second: the claim has no allocation, and gets the device on its node.
	deallocates     = allocation(func(_, _, after string) bool { return after == "" })
	allocatesTarget = allocation(func(name, before, after string) bool { return before == "" && after == name })
)

func claimIn(o *unstructured.Unstructured) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, claim); err != nil {
		return nil
	}
	return claim
}
