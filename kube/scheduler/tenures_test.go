// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
)

// nominations are the names of pods by the node that they are nominated to.
type nominations struct {
	fwk.Handle
	pods  map[string][]fwk.PodInfo
	nodes []fwk.NodeInfo
}

func (n nominations) SnapshotSharedLister() fwk.SharedLister { return someNodes{nodes: n.nodes} }

type someNodes struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (n someNodes) NodeInfos() fwk.NodeInfoLister { return n }
func (n someNodes) List() ([]fwk.NodeInfo, error) { return n.nodes, nil }

func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo { return n.pods[node] }

// recordBehind is a manager whose record of what is taken stays as it was.
type recordBehind struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	state *schedulerapi.AllocatedState
}

func (m recordBehind) ResourceClaims() fwk.ResourceClaimTracker { return m }

func (m recordBehind) GatherAllocatedState() (*schedulerapi.AllocatedState, error) {
	return m.state, nil
}

func (r *rig) holdRecord() {
	r.t.Helper()
	state, err := r.manager.ResourceClaims().GatherAllocatedState()
	if err != nil {
		r.t.Fatal(err)
	}
	r.plugin.feed = informer.NewFeed(recordBehind{r.manager, r.manager.ResourceClaims(), state}, r.plugin.ledger.Conflicts, r.plugin.ledger.Exchanges.Promised, func(informer.Conflict) {})
}

func (r *rig) deallocate(claim string) {
	r.t.Helper()
	r.seen(r.api.change(r.t, claim, func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }))
}

func (r *rig) deleteClaim(claim string) {
	r.t.Helper()
	if err := r.api.client.Tracker().Delete(claimResource, "ns", claim); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("claim "+claim+" is gone", func() bool {
		_, err := r.manager.ResourceClaims().Get("ns", claim)
		return err != nil
	})
}

// evicted returns a pod that has to end for another one.
func evicted(name string, claims ...string) *v1.Pod {
	pod := newPod(name, claims...)
	pod.Spec.NodeName = "n1"
	pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: start}, []string{"x"}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	return pod
}

// deleted marks a claim as being deleted.
func deleted(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.DeletionTimestamp = &metav1.Time{Time: start}
	return claim
}

// madeForPod returns a claim that is a pod's own.
func madeForPod(claim *resourceapi.ResourceClaim, pod string) *resourceapi.ResourceClaim {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: newPod(pod).UID, Controller: new(true)}}
	return claim
}

// TestDevicesBeingReleased: d1 was a pod's that has been evicted, or ends otherwise, and
// is given back step by step. At no step is somebody else evicted for it, on any node.
func TestDevicesBeingReleased(t *testing.T) {
	held := used("a", "n1", "d1", "v")
	for name, tc := range map[string]struct {
		objects []runtime.Object
		// before the attempt begins, and after it has looked at what is taken.
		before, within func(r *rig)
		// stays is set where the device is not given back.
		stays bool
	}{
		"the pod runs":                      {objects: []runtime.Object{held, newPod("v", "a")}, stays: true},
		"the pod is gone":                   {objects: []runtime.Object{held}},
		"evicted for the pod":               {objects: []runtime.Object{held, evicted("v", "a")}, before: nominate("p")},
		"evicted for another pod":           {objects: []runtime.Object{held, evicted("v", "a")}, before: nominate("q"), stays: true},
		"not reserved":                      {objects: []runtime.Object{used("a", "n1", "d1")}, stays: true},
		"not reserved and deleted":          {objects: []runtime.Object{deleted(used("a", "n1", "d1"))}},
		"not reserved, its pod is gone":     {objects: []runtime.Object{madeForPod(used("a", "n1", "d1"), "v")}},
		"not reserved, its pod runs":        {objects: []runtime.Object{madeForPod(used("a", "n1", "d1"), "v"), newPod("v", "a")}, stays: true},
		"deallocated within the attempt":    {objects: []runtime.Object{held}, within: func(r *rig) { r.deallocate("a") }},
		"deleted within the attempt":        {objects: []runtime.Object{held}, within: func(r *rig) { r.deleteClaim("a") }},
		"deallocated, the record is behind": {objects: []runtime.Object{held}, before: func(r *rig) { r.holdRecord(); r.deallocate("a") }},
		"deleted, the record is behind":     {objects: []runtime.Object{held}, before: func(r *rig) { r.holdRecord(); r.deleteClaim("a") }},
		"somebody else has it by now, the record is behind": {objects: []runtime.Object{held, used("b", "n1", "d1", "w"), newPod("w", "b")}, before: func(r *rig) {
			r.holdRecord()
			r.deallocate("a")
		}, stays: true},
		"on its way":         {objects: []runtime.Object{newClaim("a"), newPod("v", "a")}, before: func(r *rig) { r.cycle(newPod("v", "a")).place("n1") }, stays: true},
		"gone on its way":    {objects: []runtime.Object{newClaim("a")}, before: func(r *rig) { r.cycle(newPod("v", "a")).place("n1") }},
		"stopped on its way": {objects: []runtime.Object{newClaim("a"), newPod("v", "a")}, before: func(r *rig) { r.stopped("v", "a") }},
		"turned back when all was written": {objects: []runtime.Object{newClaim("a"), newPod("v", "a")}, before: func(r *rig) {
			c := r.cycle(newPod("v", "a"))
			c.bind("n1")
			r.seen(r.api.claim(r.t, "a"))
			c.returning("update status", "a")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", append(tc.objects, newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), used("z", "n2", "d1", "z"), newPod("z"))...)
			nominate("")(r)
			if tc.before != nil {
				tc.before(r)
			}
			c := r.cycle(newPod("p", "c"))
			r.succeed("PreFilter", c.preFilter())
			if tc.within != nil {
				tc.within(r)
			}
			wantFilter, wantPostFilter := fwk.UnschedulableAndUnresolvable, fwk.UnschedulableAndUnresolvable
			if tc.stays {
				wantFilter, wantPostFilter = fwk.Unschedulable, fwk.Unschedulable
			}
			if got := c.filter("n1"); got.Code() != wantFilter {
				t.Errorf("Filter: got %s: %s, want %s", got.Code(), got.Message(), wantFilter)
			}
			if got := c.filter("n2"); got.Code() != fwk.Unschedulable {
				t.Errorf("Filter of the other node: got %s: %s", got.Code(), got.Message())
			}
			if _, got := r.plugin.PostFilter(r.ctx, c.state, c.pod, nil); got.Code() != wantPostFilter {
				t.Errorf("PostFilter: got %s: %s, want %s", got.Code(), got.Message(), wantPostFilter)
			}
		})
	}
}

// nominate has one pod nominated to n1.
func nominate(pod string) func(r *rig) {
	return func(r *rig) {
		r.stand(nominations{r.plugin.handle, map[string][]fwk.PodInfo{"n1": {podInfo(r.t, newPod(pod))}}, nil})
	}
}

// stopped has a pod preempted while PreBind writes its claim.
func (r *rig) stopped(pod, claim string) {
	r.t.Helper()
	c := r.cycle(newPod(pod, claim))
	c.place("n1")
	client := r.plugin.writer.Client
	held := r.holdRequests("update status", claim)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan *fwk.Status)
	go func() { done <- r.plugin.PreBind(ctx, c.state, c.pod, "n1") }()
	<-held.arrived
	cancel()
	if got := <-done; got.IsSuccess() {
		r.t.Fatal("PreBind succeeds although it was stopped")
	}
	r.plugin.writer.Client = client
}

// returning holds the pod's Unreserve at a request until the test ends.
func (c *cycle) returning(verb, object string) {
	held := c.holdRequests(verb, object)
	done := make(chan struct{})
	go func() { defer close(done); c.unreserve("n1") }()
	c.t.Cleanup(func() { held.release(); <-done })
	select {
	case <-held.arrived:
	case <-done:
	}
}

// TestSharesBeingReleased: of a shared device as much becomes free as is taken and nobody
// keeps.
func TestSharesBeingReleased(t *testing.T) {
	id := inventory.DeviceID{Driver: driver, Pool: "n1", Device: "d1"}
	amount := func(n int64) map[resourceapi.QualifiedName]inventory.Amount {
		return map[resourceapi.QualifiedName]inventory.Amount{"memory": inventory.AmountOf(*resource.NewQuantity(n, resource.DecimalSI))}
	}
	kept := tenures{}
	kept.add([]inventory.Hold{{Device: id, ShareID: "1", Consumed: amount(2)}}, nil, true)
	kept.add([]inventory.Hold{{Device: id, ShareID: "1", Consumed: amount(2)}}, nil, true) // in memory still
	kept.add([]inventory.Hold{{Device: id, ShareID: "2", Consumed: amount(3)}}, nil, false)
	freed := kept.freedOf(id, &inventory.Occupancy{Shares: 3, Consumed: amount(9), Holders: make([]inventory.Holder, 3)}, nil)
	if len(freed) != 2 || freed[0].ShareID == "" || freed[1].ShareID == "" {
		t.Fatalf("got %v, want two shares", freed)
	}
	if first := freed[0].Consumed["memory"]; first.Cmp(amount(7)["memory"]) != 0 || len(freed[1].Consumed) > 0 {
		t.Errorf("got %v, want 7 together", freed)
	}
	if freed := kept.freedOf(id, &inventory.Occupancy{Shares: 1, Consumed: amount(2), Holders: make([]inventory.Holder, 1)}, nil); len(freed) > 0 {
		t.Errorf("got %v, want nothing: the share that is taken stays", freed)
	}
}

// TestTheSamePodsAreEvicted: a pod is tried again when those that are evicted for it are
// marked, and the scheduler has not heard yet that they were deleted.
func TestTheSamePodsAreEvicted(t *testing.T) {
	pod := func(name string, priority int32, claims ...string) *v1.Pod {
		pod := newPod(name, claims...)
		pod.Spec.Priority = &priority
		return pod
	}
	marked := pod("marked", 1, "a")
	marked.Status.Conditions = evicted("").Status.Conditions
	spared, other, preemptor := pod("spared", 1, "b"), pod("other", 1, "d"), pod("p", 2, "c")
	for name, tc := range map[string]struct {
		nominated string
		removed   *v1.Pod
		on        string
		want      fwk.Code
	}{
		"the one that is marked goes":      {"p", marked, "n1", fwk.Success},
		"another one does not":             {"p", spared, "n1", fwk.Unschedulable},
		"nor one of another node":          {"p", other, "n2", fwk.Unschedulable},
		"marked for another pod":           {"q", spared, "n1", fwk.Success},
		"marked for another pod elsewhere": {"q", other, "n2", fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1"), newDevice("d2")), newSlice("n2", newDevice("d1")), marked, spared, other,
				used("a", "n1", "d1", "marked"), used("b", "n1", "d2", "spared"), used("d", "n2", "d1", "other"))
			nodes := map[string]*framework.NodeInfo{}
			for node, pods := range map[string][]*v1.Pod{"n1": {marked, spared}, "n2": {other}} {
				nodes[node] = framework.NewNodeInfo(pods...)
				nodes[node].SetNode(newNode(node))
			}
			r.stand(nominations{r.plugin.handle, map[string][]fwk.PodInfo{"n1": {podInfo(t, pod(tc.nominated, 2))}}, []fwk.NodeInfo{nodes["n1"], nodes["n2"]}})
			c := r.cycle(preemptor)
			r.succeed("PreFilter", c.preFilter())
			if got := r.plugin.Filter(r.ctx, c.state, c.pod, nodes[tc.on]); got.Code() != fwk.Unschedulable {
				t.Fatalf("before: got %s: %s", got.Code(), got.Message())
			}
			without := framework.NewNodeInfo()
			for _, info := range nodes[tc.on].GetPods() {
				if info.GetPod().UID != tc.removed.UID {
					without.AddPod(info.GetPod())
				}
			}
			without.SetNode(newNode(tc.on))
			r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, c.state, c.pod, podInfo(t, tc.removed), without))
			if got := r.plugin.Filter(r.ctx, c.state, c.pod, without); got.Code() != tc.want {
				t.Errorf("got %s: %s, want %s", got.Code(), got.Message(), tc.want)
			}
		})
	}
}
