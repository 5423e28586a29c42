// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package storm

import (
	"cmp"
	"fmt"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// holding is what a pod has, or should have: for each of its claims the number of
// devices.
type holding struct {
	Special, Own []int
	// Named is set where the pod's status names its special claim.
	Named bool
}

// check expects that every living pod has what it asks for and nobody else has
// anything, and that nothing waits that would fit.
func (st *storm) check(state *cluster.State) {
	for _, v := range sandbox.Verify(state) {
		st.t.Errorf("%v", v)
	}
	if diff := gocmp.Diff(st.due(state), st.held(state)); diff != "" {
		st.t.Errorf("pods and what they hold (-want +got):\n%s", diff)
	}
	st.checkPlugins(state)
	st.checkPending(state)
}

// due is what pods should hold: of each resource that no device plugin of their node
// offers, as many devices as they ask for.
func (st *storm) due(state *cluster.State) map[string]holding {
	all := map[string]holding{}
	for _, pod := range state.Pods {
		if claim.Ended(pod) {
			continue
		}
		var h holding
		for range pod.Spec.ResourceClaims {
			devices := 1
			if pod.Spec.NodeName == "" {
				devices = 0
			}
			h.Own = append(h.Own, devices)
		}
		if devices := st.served(state, pod); devices > 0 {
			h.Special, h.Named = []int{devices}, true
		}
		if len(h.Special)+len(h.Own) > 0 {
			all[pod.Name] = h
		}
	}
	return all
}

// served is how many devices serve the extended resources of a pod.
func (st *storm) served(state *cluster.State, pod *corev1.Pod) int {
	if pod.Spec.NodeName == "" {
		return 0
	}
	i := slices.IndexFunc(state.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName })
	if i < 0 {
		st.t.Errorf("pod %s is on node %s, which is gone", pod.Name, pod.Spec.NodeName)
		return 0
	}
	devices := 0
	for _, name := range []corev1.ResourceName{resource, implicit} {
		if offered := state.Nodes[i].Status.Allocatable[name]; offered.IsZero() {
			asked := claim.PodRequests(pod)[name]
			devices += int(asked.Value())
		}
	}
	return devices
}

// held is what the claims say. Claims of pods that are not alive are listed under
// their own names.
func (st *storm) held(state *cluster.State) map[string]holding {
	pods := map[types.UID]*corev1.Pod{}
	for i := range state.Pods {
		if !claim.Ended(state.Pods[i]) {
			pods[state.Pods[i].UID] = state.Pods[i]
		}
	}
	all := map[string]holding{}
	for _, c := range state.ResourceClaims {
		key, named := describeClaim(c), false
		if owner := metav1.GetControllerOf(c); owner != nil && pods[owner.UID] != nil {
			key = owner.Name
			status := pods[owner.UID].Status.ExtendedResourceClaimStatus
			named = status != nil && status.ResourceClaimName == c.Name
		}
		h := all[key]
		if claim.IsSpecial(c) {
			h.Special, h.Named = append(h.Special, devicesOf(c)), h.Named || named
		} else {
			h.Own = append(h.Own, devicesOf(c))
		}
		all[key] = h
	}
	return all
}

func devicesOf(claim *resourceapi.ResourceClaim) int {
	if claim.Status.Allocation == nil {
		return 0
	}
	return len(claim.Status.Allocation.Devices.Results)
}

func describeClaim(claim *resourceapi.ResourceClaim) string {
	owner := cmp.Or(metav1.GetControllerOf(claim), &metav1.OwnerReference{})
	return fmt.Sprintf("%s of pod %s (%s)", claim.Name, owner.Name, owner.UID)
}

// checkPlugins expects that no device plugin has to serve more than it offers.
func (st *storm) checkPlugins(state *cluster.State) {
	for _, node := range state.Nodes {
		asked := int64(0)
		for j := range state.Pods {
			if pod := state.Pods[j]; pod.Spec.NodeName == node.Name && !claim.Ended(pod) {
				amount := claim.PodRequests(pod)[resource]
				asked += amount.Value()
			}
		}
		if offered := node.Status.Allocatable[resource]; !offered.IsZero() && asked > offered.Value() {
			st.t.Errorf("node %s: pods ask for %d of %s, its plugin offers %d", node.Name, asked, resource, offered.Value())
		}
	}
}

// checkPending expects that the simulation has no node for a pod that waits.
func (st *storm) checkPending(state *cluster.State) {
	w := simulate.NewWorld(&dumped(st, state).Objects, simulate.Options{Matcher: selector.New()})
	for _, pod := range state.Pods {
		if pod.Spec.NodeName != "" || claim.Ended(pod) {
			continue
		}
		verdict, err := w.Try(pod)
		st.must(err)
		if verdict.Obstacle != nil {
			st.t.Errorf("pod %s waits for something else than room: %+v", pod.Name, verdict.Obstacle)
		}
		for j := range verdict.Nodes {
			if n := &verdict.Nodes[j]; n.Fits() {
				st.t.Errorf("pod %s waits, but fits on node %s; its conditions: %+v", pod.Name, n.Node.Name, pod.Status.Conditions)
			}
		}
	}
}

// dumped is the state as the simulation reads it.
func dumped(st *storm, state *cluster.State) *dump.Dump {
	d := dump.New()
	for _, kind := range cluster.Kinds {
		switch kind.Resource.Resource {
		case "nodes", "pods", "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses":
			for _, object := range kind.Objects(state) {
				st.must(d.Add(object))
			}
		}
	}
	return d
}

// summary counts what there is.
func summary(state *cluster.State) string {
	bound, finished, special, devices := 0, 0, 0, 0
	for i := range state.Pods {
		switch pod := state.Pods[i]; {
		case claim.Ended(pod):
			finished++
		case pod.Spec.NodeName != "":
			bound++
		}
	}
	for i := range state.ResourceClaims {
		devices += devicesOf(state.ResourceClaims[i])
		if claim.IsSpecial(state.ResourceClaims[i]) {
			special++
		}
	}
	return fmt.Sprintf("%d pods: %d on nodes, %d finished, %d waiting; %d claims, %d of them special, %d devices",
		len(state.Pods), bound, finished, len(state.Pods)-bound-finished, len(state.ResourceClaims), special, devices)
}
