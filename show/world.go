// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/simulate"
)

// World explains pods and claims of a cluster.
type World struct {
	*simulate.World
	// Visible is that of [Options].
	Visible func(namespace string) bool
	// Blind is set where claims of other namespaces are not part of the world,
	// so that devices which they hold look free.
	Blind bool
	// Fabrics have devices that are not published yet, so that none of them is part of the
	// world.
	Fabrics []string
}

// notPublished is the note on pods that wait while fabrics have devices to come.
func notPublished(fabrics []string) string {
	return fmt.Sprintf("the devices of %s %s are not published yet, and not simulated; kerf-controller publishes them in a cluster, of which kerf dump makes a file",
		explain.Verb(len(fabrics), "Fabric", "Fabrics"), explain.ListAnd(fabrics))
}

// blindness is the note on answers of a world that is Blind.
const blindness = "claims of other namespaces cannot be listed, devices that they hold look free here"

// Options are what the world knows.
func (w *World) Options() explain.Options {
	return explain.Options{Holders: w.Snapshot().Holders, Claimant: w.claimant, Visible: w.Visible, Called: w.called}
}

// called is what a request of a special claim is for.
func (w *World) called(ref alloc.RequestRef) string {
	namespace, name, _ := strings.Cut(ref.Claim, "/")
	claim := w.World.Claim(namespace, name)
	if claim == nil {
		return ""
	}
	return w.Called(claim, ref.Request)
}

func (w *World) claimant(uid types.UID) (inventory.Holder, bool) {
	claim := w.ClaimByUID(uid)
	if claim == nil {
		return inventory.Holder{}, false
	}
	return inventory.Holder{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID}, true
}

// Pod says where a pod is and what it has, or why it waits.
func (w *World) Pod(pod *v1.Pod) (PodState, error) {
	claims, _ := w.Claims(pod)
	state, err := w.podState(pod, claims)
	if o := w.Stranded(pod); o != nil && err == nil {
		state.Obstacle = Obstacle(o, w.Options())
	}
	if err != nil || pod.Spec.NodeName != "" || claim.Ended(pod) {
		return state, err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			state.Scheduler = c.Message
		}
	}
	v, err := w.Try(pod)
	if err != nil {
		return state, err
	}
	w.verdict(&state, v)
	return state, nil
}

func (w *World) verdict(state *PodState, v *simulate.Verdict) {
	state.Verdict(v, w.Options())
	if len(v.Nodes) == 0 && v.Obstacle == nil {
		state.Notes = append(state.Notes, "no nodes are known")
	}
	if v.Best == nil && v.Obstacle == nil && len(w.Fabrics) > 0 {
		state.Notes = append(state.Notes, notPublished(w.Fabrics))
	}
	if w.Blind {
		state.FitsOn = nil
		state.Notes = append(state.Notes, blindness)
	}
}

// Placed describes the verdict on a pod that was placed, or could not be.
func (w *World) Placed(v *simulate.Verdict) (PodState, error) {
	state, err := w.podState(v.Pod, v.Claims)
	if err != nil {
		return state, err
	}
	if v.Best == nil || v.Blocker() != nil {
		w.verdict(&state, v)
		return state, nil
	}
	state.Node = v.Best.Node.Name
	return state, nil
}

func (w *World) podState(pod *v1.Pod, claims []simulate.Claim) (PodState, error) {
	state := PodState{Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), Node: pod.Spec.NodeName}
	for _, c := range claims {
		rc, err := w.claimState(c.Object, pod.Spec.NodeName)
		if err != nil {
			return state, err
		}
		rc.Entry, rc.Template, rc.Missing = c.Name, c.Template, c.New && !rc.Allocated
		rc.Special = rc.Special || c.Special
		state.Claims = append(state.Claims, rc)
	}
	for name, amount := range claim.TakenByDevices(w.WithSpecial(pod)) {
		if state.NodeResources == nil {
			state.NodeResources = map[string]string{}
		}
		state.NodeResources[string(name)] = explain.Quantity(name, amount)
	}
	return state, nil
}

// claimState describes a claim. Where it is allocated, better alternatives are
// tried on the node, or on the only one that the allocation can be used on.
func (w *World) claimState(c *resourceapi.ResourceClaim, node string) (ClaimState, error) {
	snapshot := w.Snapshot()
	o := ClaimOptions{Claimant: w.claimant, Visible: w.Visible, PassedOver: map[string]string{}}
	o.Called = func(request string) string { return w.Called(c, request) }
	if node == "" && c.Status.Allocation != nil && c.Status.Allocation.NodeSelector != nil {
		node, _ = strings.CutPrefix(selectorText(c.Status.Allocation.NodeSelector), "node ")
	}
	o.Device = func(id inventory.DeviceID) *inventory.Device { return snapshot.Device(id, node) }
	if n := w.Node(node); n != nil && !w.Blind {
		passed, err := w.PassedOver(c, n)
		if err != nil {
			return ClaimState{}, err
		}
		for _, p := range passed {
			why := w.Options()
			why.Claims, why.View = []*resourceapi.ResourceClaim{p.Claim}, p.View
			text := strings.TrimPrefix(explain.Outcome(p.Outcome, why), p.Request+": ")
			if p.Outcome.Result != nil {
				text = "which has become possible since"
			}
			o.PassedOver[p.Request] = text
		}
	}
	state := Claim(c, o)
	_, state.Special = claim.SpecialOwner(c)
	return state, nil
}

// ClaimWait is a claim and, where it is not allocated, what a pod without other
// wishes would meet that uses it.
type ClaimWait struct {
	ClaimState
	// UsedBy are the pods that name the claim or own it.
	UsedBy []string `json:"usedBy,omitempty"`
	// Wait is about a pod that uses the claim.
	Wait *PodState `json:"wait,omitempty"`
}

// Claim says where a claim is allocated and why there, or why it is not.
func (w *World) Claim(claim *resourceapi.ResourceClaim, pods []*v1.Pod) (ClaimWait, error) {
	state, err := w.claimState(claim, "")
	wait := ClaimWait{ClaimState: state}
	for _, pod := range pods {
		if pod.Namespace == claim.Namespace && w.uses(pod, claim) {
			wait.UsedBy = append(wait.UsedBy, pod.Name)
		}
	}
	if err != nil || wait.Allocated {
		return wait, err
	}
	v, err := w.Try(&v1.Pod{Spec: v1.PodSpec{
		ResourceClaims: []v1.PodResourceClaim{{Name: claim.Name, ResourceClaimName: &claim.Name}},
		Tolerations:    []v1.Toleration{{Operator: v1.TolerationOpExists}},
	}, ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}})
	if err != nil {
		return wait, err
	}
	wait.Wait = &PodState{}
	w.verdict(wait.Wait, v)
	return wait, nil
}

func (w *World) uses(pod *v1.Pod, rc *resourceapi.ResourceClaim) bool {
	if claim.UsesSpecial(pod, rc) {
		return true
	}
	claims, _ := w.Claims(pod)
	for _, c := range claims {
		if c.Object.Name == rc.Name && !c.New {
			return true
		}
	}
	return false
}

// Text is the claim for a person.
func (c *ClaimWait) Text() string {
	var b strings.Builder
	b.WriteString(c.ClaimState.Text())
	if len(c.UsedBy) > 0 {
		b.WriteString("  used by " + explain.Verb(len(c.UsedBy), "pod ", "pods ") + explain.ListAnd(c.UsedBy) + "\n")
	} else if !c.Allocated {
		b.WriteString("  no pod uses it yet, so nothing is allocated\n")
	}
	if c.Wait != nil {
		c.Wait.writeVerdict(&b)
	}
	return b.String()
}
