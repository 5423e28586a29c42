// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// madeFor is a special claim with a device, as an attempt left it.
func madeFor(pod *v1.Pod, name, class, node, device string, age int) *resourceapi.ResourceClaim {
	c := podclaim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, gpu, class)}).Claim
	c.Name, c.UID = name, types.UID("uid-"+name)
	c.GenerateName = pod.Name + "-extended-resources-"
	c.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, -age))
	c = allocated(c, node, device)
	c.Status.Allocation.Devices.Results[0].Request = c.Spec.Devices.Requests[0].Name
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	return c
}

// TestTwoSpecialClaims: one stays, the other goes before the pod is bound.
func TestTwoSpecialClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		named string
		want  string
	}{
		"the older one":           {want: "older"},
		"the one the status says": {named: "newer", want: "newer"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("p", container("a", gpu+"=1"))
			if tc.named != "" {
				pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: tc.named, RequestMappings: claim.DemandFor(pod, gpu, "gpu").Mappings}
			}
			r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 2)...), pod,
				madeFor(pod, "older", "gpu", "n1", "g-0", 2), madeFor(pod, "newer", "gpu", "n1", "g-1", 1))
			got := r.cycle(pod).bindOn(nodeOffering("n1"))
			if got.Status.ExtendedResourceClaimStatus.ResourceClaimName != tc.want {
				t.Errorf("the status names %s, want %s", got.Status.ExtendedResourceClaimStatus.ResourceClaimName, tc.want)
			}
			if claims := r.api.claims(t); len(claims) != 1 || claims[0].Name != tc.want || len(devicesOf(claims[0])) != 1 {
				t.Errorf("got claims %v, want only %s", claims, tc.want)
			}
		})
	}
}

// TestLeftoversAreRemoved where the plugin serves, and where the pod does not fit at
// all.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Run("where the plugin serves", func(t *testing.T) {
		pod := podOf("p", container("a", gpu+"=1"))
		r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod, madeFor(pod, "old", "gone", "n1", "g-0", 1))
		r.cycle(pod).bindOn(nodeOffering("n2", gpu+"=1"))
		if claims := r.api.claims(t); len(claims) > 0 {
			t.Errorf("claim %s is left", claims[0].Name)
		}
	})
	t.Run("where nothing fits", func(t *testing.T) {
		pod := podOf("p", container("a", gpu+"=1"))
		r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod, madeFor(pod, "old", "gone", "n1", "g-0", 1))
		c := r.cycle(pod)
		r.succeed("PreFilter", c.preFilter())
		if got := c.filterOn(nodeOffering("n1")); got.IsSuccess() {
			t.Error("the device was given out twice")
		}
		_, got := r.plugin.PostFilter(r.ctx, c.state, pod, nil)
		if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "ns/old") {
			t.Errorf("got %s: %s", got.Code(), got.Message())
		}
		r.idle()
		if claims := r.api.claims(t); len(claims) > 0 {
			t.Errorf("claim %s is left", claims[0].Name)
		}
	})
}

// TestForeignClaimOfThatName is not touched.
func TestForeignClaimOfThatName(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	foreign := newClaim(podclaim.SpecialName(pod))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod, foreign)
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	wantError(c, c.preBind("n1"), "a claim of that name exists which was not made for the pod")
	c.unreserve("n1")
	if got := r.api.claim(t, foreign.Name); len(got.Finalizers) > 0 || got.DeletionTimestamp != nil {
		t.Error("the claim was changed")
	}
	if _, unsettled := r.plugin.ledger.Specials.IsUnsettled(pod.UID); unsettled {
		t.Error("the pod has unsettled business")
	}
}

// TestClaimsThatLookSpecial: a user has copied annotation and owner. They are not the
// pod's, which goes its way, and waits for devices as any other.
func TestClaimsThatLookSpecial(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	copied := madeFor(pod, "copied", "gpu", "n1", "g-0", 2)
	copied.GenerateName = ""
	former := madeFor(pod, "former", "gpu", "n1", "g-1", 2)
	former.GenerateName = "another-extended-resources-"
	shared := madeFor(pod, "shared", "gpu", "n1", "g-2", 2)
	shared.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "q", UID: "uid-q"}}
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 3)...), newSlice("n2"), pod, copied, former, shared)
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	wantRefusal(t, c.filterOn(nodeOffering("n2")), fwk.UnschedulableAndUnresolvable, noDevices)
	if got := c.postFilter(); got.Code() != fwk.Unschedulable || got.Message() != "" {
		t.Errorf("PostFilter: got %s: %s", got.Code(), got.Message())
	}
	r.idle()

	grown := newSlice("n2", gpus("g", 1)...)
	if got, err := r.plugin.hints.afterSliceChange(klog.Background(), pod, newSlice("n2"), grown); got != fwk.Queue || err != nil {
		t.Errorf("after devices have come: got %s, %v", got, err)
	}
	r.publish(grown)
	bound := r.cycle(pod).bindOn(nodeOffering("n2"))
	if got := bound.Status.ExtendedResourceClaimStatus.ResourceClaimName; got != podclaim.SpecialName(pod) {
		t.Errorf("the status names %s", got)
	}
	for _, claim := range []*resourceapi.ResourceClaim{copied, former, shared} {
		if got := r.api.claim(t, claim.Name); len(devicesOf(got)) != 1 || len(got.Status.ReservedFor) != 1 {
			t.Errorf("claim %s has changed: %v", claim.Name, got.Status)
		}
	}
}

func TestSpecialName(t *testing.T) {
	for _, name := range []string{"p", strings.Repeat("a", 253), strings.Repeat("a", 222) + ".b" + strings.Repeat("c", 29)} {
		pod := newPod(name)
		if got := podclaim.SpecialName(pod); len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("%q is no name", got)
		}
		again := newPod(name)
		again.UID = "another"
		if podclaim.SpecialName(pod) == podclaim.SpecialName(again) {
			t.Error("two pods of the same name share a claim")
		}
	}
}

// TestStatusCannotBeTakenBack: the kubelet would insist on the claim.
func TestStatusCannotBeTakenBack(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gone"}
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod)
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	wantRefusal(t, c.filterOn(nodeOffering("n2", gpu+"=1")), fwk.UnschedulableAndUnresolvable, "names claim gone")
	r.succeed("Filter", c.filterOn(nodeOffering("n1")))

	// Also where no class serves it any more.
	r = newRig(t, "", pod)
	c = r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	wantRefusal(t, c.filterOn(nodeOffering("n2", gpu+"=1")), fwk.UnschedulableAndUnresolvable, "names claim gone")
}

// TestStatusOfAnotherPod: the pod is gone and there is another of its name before its
// status can be written. Nobody tells of its end any more, so nothing is remembered.
func TestStatusOfAnotherPod(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod)
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	another := podOf("p", container("a", gpu+"=1"))
	another.UID = "another"
	tracker := r.api.client.Tracker()
	if err := errors.Join(tracker.Delete(podResource, "ns", "p"), tracker.Create(podResource, r.api.stamp(another), "ns")); err != nil {
		t.Fatal(err)
	}
	r.eventually("the other pod arrives", func() bool {
		seen, err := r.plugin.ledger.Users.Lister.Pods("ns").Get("p")
		return err == nil && seen.UID == another.UID
	})
	wantError(c, c.preBind("n1"), "not found")
	c.unreserve("n1")
	if name := r.plugin.ledger.Specials.NameIn(pod); name != "" {
		t.Errorf("claim %s is remembered for the pod that is gone", name)
	}
	if claims := r.api.claims(t); len(claims) > 0 {
		t.Errorf("claim %s is left", claims[0].Name)
	}
}

// TestResolverIsInformed: NodeResourcesFit has to learn of mappings that the
// resolver of the scheduler lost.
func TestResolverIsInformed(t *testing.T) {
	older, newer := mappedClass("gpu-a", 1, gpu, "g"), mappedClass("gpu-b", 2, gpu, "g")
	r := newRig(t, "", older)
	resolver := r.manager.DeviceClassResolver()
	handler := as[interface {
		OnAdd(any, bool)
		OnDelete(any)
	}](resolver)
	handler.OnAdd(newer, false)
	handler.OnAdd(older, false)
	if resolver.GetDeviceClass("deviceclass.resource.kubernetes.io/gpu-a") != nil {
		t.Fatal("the resolver knows the older class by its own name: informResolver and this test can go")
	}
	handler.OnDelete(newer)
	// Hints are called with the queue locked, which events would lock again.
	r.plugin.hints.waiting(podOf("p", container("a", gpu+"=1")))
	if resolver.GetDeviceClass(gpu) != nil {
		t.Error("a hint sent an event")
	}
	pod := podOf("p", container("a", gpu+"=1", "deviceclass.resource.kubernetes.io/gpu-a=1"))
	r.succeed("PreFilter", r.cycle(pod).preFilter())
	for _, name := range []v1.ResourceName{gpu, "deviceclass.resource.kubernetes.io/gpu-a"} {
		if class := resolver.GetDeviceClass(name); class == nil || class.Name != "gpu-a" {
			t.Errorf("%s: the resolver has class %v, want gpu-a", name, class)
		}
	}
	// What it still has although there is no class is refused here.
	handler.OnAdd(mappedClass("ghost", 3, nic, "n"), false)
	c := r.cycle(podOf("q", container("a", nic+"=1")))
	r.succeed("PreFilter", c.preFilter())
	wantRefusal(t, c.filterOn(nodeOffering("n1")), fwk.UnschedulableAndUnresolvable, "Insufficient "+nic)
}

// TestScoresOfBothKinds: a node with a device plugin is ranked as one with as many
// devices would be.
func TestScoresOfBothKinds(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("d1", gpus("g", 4)...), newSlice("d2", gpus("g", 2)...), pod)
	nodes := []*framework.NodeInfo{nodeOffering("d1"), nodeOffering("d2"), nodeOffering("p1", gpu+"=3"), nodeOffering("p2", gpu+"=4"), nodeOffering("p3", gpu+"=4")}
	busy := framework.NewNodeInfo(podOf("busy", container("a", gpu+"=3")))
	busy.SetNode(nodes[4].Node())
	nodes[4] = busy
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	var infos []fwk.NodeInfo
	for _, node := range nodes {
		r.succeed("Filter", c.filterOn(node))
		infos = append(infos, node)
	}
	r.succeed("PreScore", r.plugin.PreScore(r.ctx, c.state, pod, infos))
	got := map[string]int64{}
	for _, node := range infos {
		score, status := r.plugin.Score(r.ctx, c.state, pod, node)
		r.succeed("Score", status)
		got[node.Node().Name] = score
	}
	// The fuller, the better: 1 left, 2, 3, 4.
	if diff := cmp.Diff(map[string]int64{"p3": 100, "d2": 66, "p1": 33, "d1": 0, "p2": 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestPreemptionOfSpecialClaims: its devices count as free when their pod is gone,
// also while the claim is only in memory.
func TestPreemptionOfSpecialClaims(t *testing.T) {
	victim, pod := podOf("v", container("a", gpu+"=1")), podOf("p", container("a", gpu+"=1"))
	for name, bind := range map[string]bool{"bound": true, "on its way": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), victim, pod)
			node := nodeOffering("n1")
			v := r.cycle(victim)
			known := victim
			if bind {
				known = v.bindOn(node)
				r.seen(r.api.claims(t)[0])
			} else {
				r.succeed("PreFilter", v.preFilter())
				r.succeed("Filter", v.filterOn(node))
				r.succeed("Reserve", v.reserve("n1"))
			}
			c := r.cycle(pod)
			r.succeed("PreFilter", c.preFilter())
			if got := c.filterOn(node); got.Code() != fwk.Unschedulable {
				t.Fatalf("got %s: %s", got.Code(), got.Message())
			}
			simulated := c.state.Clone()
			r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, simulated, pod, podInfo(t, known), node))
			r.succeed("Filter", r.plugin.Filter(r.ctx, simulated, pod, node))
			r.succeed("AddPod", r.plugin.AddPod(r.ctx, simulated, pod, podInfo(t, known), node))
			if got := r.plugin.Filter(r.ctx, simulated, pod, node); got.IsSuccess() {
				t.Error("the victim is back, and its device is free")
			}
		})
	}
}

// TestNominatedPodWithExtendedResources: others leave it its devices where devices
// serve it, and only there.
func TestNominatedPodWithExtendedResources(t *testing.T) {
	nominated, pod := podOf("n", container("a", gpu+"=1")), newPod("p", "c")
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newClaim("c"), newSlice("n1", gpus("g", 1)...), newSlice("n2", gpus("g", 1)...), nominated, pod)
	for name, tc := range map[string]struct {
		node *framework.NodeInfo
		want bool
	}{
		"by devices":    {nodeOffering("n1"), false},
		"by the plugin": {nodeOffering("n2", gpu+"=1"), true},
	} {
		c := r.cycle(pod)
		r.succeed("PreFilter", c.preFilter())
		r.succeed("AddPod", r.plugin.AddPod(r.ctx, c.state, pod, podInfo(t, nominated), tc.node))
		if got := c.filterOn(tc.node); got.IsSuccess() != tc.want {
			t.Errorf("%s: got %s: %s", name, got.Code(), got.Message())
		}
	}
}

// TestEventsOfSpecialClaims: what was in the way of a pod is gone.
func TestEventsOfSpecialClaims(t *testing.T) {
	pod, other := podOf("p", container("a", gpu+"=1")), podOf("q", container("a", "example.com/other=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod, other)
	claim := madeFor(pod, "old", "gone", "n1", "g-0", 1)
	for _, tc := range []struct {
		pod  *v1.Pod
		want fwk.QueueingHint
	}{{pod, fwk.Queue}, {other, fwk.QueueSkip}} {
		got, err := r.plugin.hints.afterClaimChange(klog.Background(), tc.pod, claim, nil)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %s, error %v", tc.pod.Name, got, err)
		}
	}
	unallocated := claim.DeepCopy()
	unallocated.Status = resourceapi.ResourceClaimStatus{}
	got, err := r.plugin.hints.podsForClaimChange(klog.Background(), unallocated, nil)
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "ns", Name: "p"}}, got.Pods); err != nil || diff != "" {
		t.Errorf("error %v, pods (-want +got):\n%s", err, diff)
	}
}

// TestPluginEvents: a pod that devices could serve is woken when the plugin of a node
// comes or goes.
func TestPluginEvents(t *testing.T) {
	r := newRig(t, "")
	for _, tc := range []struct {
		pod  *v1.Pod
		want fwk.QueueingHint
	}{{podOf("p", container("a", gpu+"=1")), fwk.Queue}, {podOf("p", container("a", nic+"=1")), fwk.QueueSkip}, {newPod("p", "c"), fwk.QueueSkip}} {
		got, err := r.plugin.hints.afterAllocatableChange(klog.Background(), tc.pod, nodeOffering("n1", gpu+"=4").Node(), nodeOffering("n1", gpu+"=0").Node())
		if err != nil || got != tc.want {
			t.Errorf("got %s, error %v; want %s", got, err, tc.want)
		}
	}
}

// TestSpecialClaimTakesNodeResources: the status says so under the claim's name where the
// API server lets it; where not, the scheduler accounts for it, also after a restart.
func TestSpecialClaimTakesNodeResources(t *testing.T) {
	for name, latest := range map[string]bool{"1.37": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			device := costlyDevice("g-0", "2", "1")
			device.Attributes = withProfile("g-0", "g").Attributes
			pod := podOf("p", container("a", gpu+"=1"), container("b"))
			r := newNodeRig(t, mappedClass("gpu-x", 1, gpu, "g"), newSlice("n1", device), pod)
			r.api.latest = latest
			c := r.cycle(pod)
			r.succeed("PreFilter", c.preFilter())
			r.succeed("Filter", r.filterHere(c))
			r.succeed("Reserve", c.reserve("n1"))
			r.node.AddPod(pod)
			r.succeed("PreBind", c.preBind("n1"))
			written := r.api.pod(t, "p")
			statuses := written.Status.NodeAllocatableResourceClaimStatuses
			switch {
			case written.Status.ExtendedResourceClaimStatus == nil:
				t.Error("the status does not name the special claim")
			case !latest && len(statuses) > 0:
				t.Errorf("got statuses %v", statuses)
			case latest && (len(statuses) != 1 || statuses[0].ResourceClaimName != podclaim.SpecialName(pod) || cmp.Diff([]string{"a"}, statuses[0].Containers) != ""):
				t.Errorf("got statuses %v", statuses)
			}
			if err := r.node.RemovePod(klog.FromContext(r.ctx), pod); err != nil {
				t.Fatal(err)
			}
			written.Spec.NodeName = "n1"
			r.node.AddPod(written)
			r.wantTaken(3)

			objects := []runtime.Object{mappedClass("gpu-x", 1, gpu, "g"), newSlice("n1", device), written, r.api.claim(t, podclaim.SpecialName(pod))}
			again := newNodeRig(t, objects...)
			again.node.AddPod(written)
			again.wantTaken(3)
			if latest != (len(again.plugin.ledger.InFlight.Nodes()) == 0) {
				t.Errorf("accounted for: %v", again.plugin.ledger.InFlight.Nodes())
			}
			off := newNodeRigWith(t, false, objects...)
			off.node.AddPod(written)
			off.cycle(newPod("q")).preFilter()
			if nodes := off.plugin.ledger.InFlight.Nodes(); len(nodes) > 0 {
				t.Errorf("with the feature off, accounted for: %v", nodes)
			}
		})
	}
}

// wantTaken checks that so many of the 10 cpus of the node are taken, towards a pod that
// has nothing to do with devices.
func (r *nodeRig) wantTaken(taken int) {
	r.t.Helper()
	for want, cpus := range map[fwk.Code]int{fwk.Success: 10 - taken, fwk.Unschedulable: 11 - taken} {
		c := r.cycle(podWith("plain", strconv.Itoa(cpus)))
		got := c.preFilter()
		switch {
		case got.IsSkip(): // then it is for NodeResourcesFit to look at the status
			left := r.plugin.room.free(r.node)[v1.ResourceCPU]
			if most := inventory.AmountOf(resource.MustParse(strconv.Itoa(10 - taken))); left.Cmp(most) != 0 {
				r.t.Errorf("%v cpus are left, want %v", left, most)
			}
		case !got.IsSuccess():
			r.t.Errorf("PreFilter: got %s: %s", got.Code(), got.Message())
		default:
			if got := r.filterHere(c); got.Code() != want {
				r.t.Errorf("%d cpus: got %s: %s, want %s", cpus, got.Code(), got.Message(), want)
			}
		}
	}
}

// TestSpecialClaimsAreNotSigned: each takes devices that the next one cannot have.
func TestSpecialClaimsAreNotSigned(t *testing.T) {
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"))
	for want, pod := range map[fwk.Code]*v1.Pod{
		fwk.Unschedulable: podOf("p", container("a", gpu+"=1")),
		fwk.Success:       podOf("p", container("a", nic+"=1")),
	} {
		if _, got := r.plugin.SignPod(r.ctx, pod); got.Code() != want {
			t.Errorf("got %s, want %s", got.Code(), want)
		}
	}
}
