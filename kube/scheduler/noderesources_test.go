// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nodeRig is a rig whose scheduler cache has one node with 10 cpus.
type nodeRig struct {
	*rig
	node *framework.NodeInfo
}

func newNodeRig(t *testing.T, objects ...runtime.Object) *nodeRig {
	t.Helper()
	return newNodeRigWith(t, true, objects...)
}

// newNodeRigWith says whether devices take resources of their nodes.
func newNodeRigWith(t *testing.T, accounts bool, objects ...runtime.Object) *nodeRig {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRANodeAllocatableResources, accounts)
	r := &nodeRig{rig: newRig(t, "", append(objects, newClass())...), node: framework.NewNodeInfo()}
	n1 := newNode("n1")
	n1.Status.Allocatable = cpus("10")
	r.node.SetNode(n1)
	r.stand(cacheHandle{r.plugin.handle, r.node})
	return r
}

// cacheHandle has one node in its snapshot.
type cacheHandle struct {
	fwk.Handle
	node fwk.NodeInfo
}

func (h cacheHandle) SnapshotSharedLister() fwk.SharedLister { return oneNode{node: h.node} }

type oneNode struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	node fwk.NodeInfo
}

func (n oneNode) NodeInfos() fwk.NodeInfoLister    { return n }
func (n oneNode) Get(string) (fwk.NodeInfo, error) { return n.node, nil }

func (r *nodeRig) filterHere(c *cycle) *fwk.Status {
	return r.plugin.Filter(r.ctx, c.state, c.pod, r.node)
}

// assume takes the pod up to where the framework has put it into its cache.
func (r *nodeRig) assume(pod *v1.Pod) *cycle {
	r.t.Helper()
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	r.succeed("Filter", r.filterHere(c))
	r.succeed("Reserve", c.reserve("n1"))
	r.node.AddPod(pod)
	return c
}

func cpus(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

// cpuDevice stands for cpus of the node.
func cpuDevice(name, amount string) resourceapi.Device {
	return resourceapi.Device{Name: name, NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
		v1.ResourceCPU: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: new(resource.MustParse(amount))}},
	}}
}

// costlyDevice costs cpus of the node for the pod and each of its containers.
func costlyDevice(name, perPod, perContainer string) resourceapi.Device {
	return resourceapi.Device{Name: name, NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
		v1.ResourceCPU: {Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(resource.MustParse(perPod)), PerContainer: new(resource.MustParse(perContainer))}},
	}}
}

// podWith has a container that requests cpus and uses the claims.
func podWith(name, request string, claims ...string) *v1.Pod {
	pod := newPod(name, claims...)
	c := v1.Container{Name: "main", Resources: v1.ResourceRequirements{Requests: cpus(request)}}
	for _, claim := range claims {
		c.Resources.Claims = append(c.Resources.Claims, v1.ResourceClaim{Name: claim})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

func wantRefusal(t *testing.T, status *fwk.Status, code fwk.Code, text string) {
	t.Helper()
	if status.Code() != code || !strings.Contains(status.Message(), text) {
		t.Errorf("got %s: %s, want %s: %s", status.Code(), status.Message(), code, text)
	}
}

// TestNodeHasNoRoom picks the device that the node has room for.
func TestNodeHasNoRoom(t *testing.T) {
	r := newNodeRig(t, newSlice("n1", cpuDevice("large", "8"), cpuDevice("small", "3")), newClaim("a"), newClaim("b"), podWith("p", "5", "a"))
	r.assume(podWith("p", "5", "a"))
	if got := devicesOf(&resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: r.manager.ResourceClaims().GetPendingAllocation("uid-a")}}); !cmp.Equal(got, []string{"small"}) {
		t.Errorf("got %v, want the small device: the pod leaves 5 of 10 cpus", got)
	}
	second := r.cycle(podWith("p2", "0", "b"))
	r.succeed("PreFilter", second.preFilter())
	wantRefusal(t, r.filterHere(second), fwk.Unschedulable, "Insufficient cpu")
}

// TestPodsInFlight accounts for devices of pods whose status does not say yet what
// they take, also towards pods without claims.
func TestPodsInFlight(t *testing.T) {
	pod := podWith("p", "0", "a")
	r := newNodeRig(t, newSlice("n1", cpuDevice("d1", "6")), newClaim("a"), pod)
	plain := podWith("plain", "5")
	if got := r.cycle(plain).preFilter(); !got.IsSkip() {
		t.Errorf("PreFilter: got %s, want Skip: nothing is in flight", got.Code())
	}
	first := r.assume(pod)
	second := r.cycle(plain)
	r.succeed("PreFilter", second.preFilter())
	wantRefusal(t, r.filterHere(second), fwk.Unschedulable, "Insufficient cpu")

	if err := r.node.RemovePod(klog.FromContext(r.ctx), first.pod); err != nil {
		t.Fatal(err)
	}
	r.succeed("Filter without the pod, as in a simulation", r.filterHere(second))
	r.node.AddPod(first.pod)
	first.unreserve("n1")
	r.succeed("Filter after Unreserve", r.filterHere(second))
	if got := r.cycle(plain).preFilter(); !got.IsSkip() {
		t.Errorf("PreFilter: got %s, want Skip: nothing is in flight any more", got.Code())
	}
}

// TestPodsArrive forgets a pod once the cache knows what its devices take.
func TestPodsArrive(t *testing.T) {
	pod := podWith("p", "1", "a")
	r := newNodeRig(t, newSlice("n1", cpuDevice("d1", "6")), newClaim("a"), pod)
	c := r.assume(pod)
	r.succeed("PreBind", c.preBind("n1"))
	written := r.pod("p")
	want := []v1.NodeAllocatableResourceClaimStatus{{
		ResourceClaimName: "a", Containers: []string{"main"},
		Mapping: []v1.NodeAllocatableMappedResources{{Name: v1.ResourceCPU, Quantity: new(resource.MustParse("6"))}},
	}}
	if diff := cmp.Diff(want, written.Status.NodeAllocatableResourceClaimStatuses); diff != "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}
	if err := r.node.RemovePod(klog.FromContext(r.ctx), pod); err != nil {
		t.Fatal(err)
	}
	r.node.AddPod(written)
	if got := r.cycle(podWith("plain", "5")).preFilter(); !got.IsSkip() {
		t.Errorf("PreFilter: got %s, want Skip: the pod has arrived", got.Code())
	}
}

// TestStatusIsTakenBack leaves nothing of a failed attempt in the pod's status.
func TestStatusIsTakenBack(t *testing.T) {
	pod := podWith("p", "1", "a")
	r := newNodeRig(t, newSlice("n1", cpuDevice("d1", "6")), newClaim("a"), pod)
	c := r.assume(pod)
	r.succeed("PreBind", c.preBind("n1"))
	c.unreserve("n1")
	if got := r.pod("p").Status.NodeAllocatableResourceClaimStatuses; len(got) > 0 {
		t.Errorf("the status still says %v", got)
	}
	r.expect("a", nil, nil)
}

// TestMappedClaimsAreNotShared refuses a second pod, which overhead does not.
func TestMappedClaimsAreNotShared(t *testing.T) {
	for name, tc := range map[string]struct {
		device resourceapi.Device
		want   string
	}{
		"mapping":  {cpuDevice("d1", "2"), "node allocatable resource claim a has a mapped device and cannot be shared across pods"},
		"overhead": {costlyDevice("d1", "1", "1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith("p1", "1", "a")
			r := newNodeRig(t, newSlice("n1", tc.device), newClaim("a"), pod)
			c := r.assume(pod)
			r.succeed("PreBind", c.preBind("n1"))
			r.seen(r.api.claim(t, "a"))
			second := r.cycle(podWith("p2", "1", "a"))
			got := second.preFilter()
			if tc.want != "" {
				wantRefusal(t, got, fwk.UnschedulableAndUnresolvable, tc.want)
				return
			}
			r.succeed("PreFilter", got)
			r.succeed("Filter", r.filterHere(second))
		})
	}
}

// TestBudgetOfThePod stays within what the pod allows itself as a whole.
func TestBudgetOfThePod(t *testing.T) {
	for name, tc := range map[string]struct {
		requests, limits string
		want             string
	}{
		"enough":                    {"8", "8", ""},
		"requests are too low":      {"5", "", "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"},
		"limits are too low for it": {"6", "6", "pod level limit for cpu is insufficient"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNodeRig(t, newSlice("n1", cpuDevice("d1", "4")), newClaim("a"))
			pod := podWith("p", "2", "a")
			pod.Spec.Containers[0].Resources.Limits = cpus("3")
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: cpus(tc.requests)}
			if tc.limits != "" {
				pod.Spec.Resources.Limits = cpus(tc.limits)
			}
			c := r.cycle(pod)
			r.succeed("PreFilter", c.preFilter())
			if got := r.filterHere(c); tc.want == "" {
				r.succeed("Filter", got)
			} else {
				wantRefusal(t, got, fwk.UnschedulableAndUnresolvable, tc.want)
			}
		})
	}
}

// TestOverhead counts every container that refers to the claim, by any entry.
func TestOverhead(t *testing.T) {
	for containers, fits := range map[int]bool{3: true, 4: false} {
		r := newNodeRig(t, newSlice("n1", costlyDevice("d1", "1", "3")), newClaim("a"))
		pod := newPod("p", "a", "a")
		pod.Spec.ResourceClaims[1].Name = "again"
		for i := range containers {
			entry := pod.Spec.ResourceClaims[i%2].Name
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
				Name: string(rune('a' + i)), Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: entry}}},
			})
		}
		c := r.cycle(pod)
		r.succeed("PreFilter", c.preFilter())
		if got := r.filterHere(c); got.IsSuccess() != fits {
			t.Errorf("%d containers: got %s: %s", containers, got.Code(), got.Message())
		}
	}
}

func (r *nodeRig) pod(name string) *v1.Pod {
	r.t.Helper()
	pod, err := r.api.client.CoreV1().Pods("ns").Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return pod
}
