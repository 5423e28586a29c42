// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// groupRig is a rig with a PodGroup "group" that declares a claim.
func groupRig(t *testing.T, scheduled []*v1.Pod, claim *schedulingapi.PodGroupResourceClaim, rigOf func() *rig) (*rig, *schedulingapi.PodGroup) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, map[featuregate.Feature]bool{
		features.GenericWorkload: true, features.DRAWorkloadResourceClaims: true,
	})
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "group", UID: "uid-group"}}
	if claim != nil {
		group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{*claim}
	}
	r := rigOf()
	r.stand(groupHandle{Handle: r.plugin.handle, groups: groups{group: group, scheduled: scheduled}})
	return r, group
}

// groupHandle knows one PodGroup.
type groupHandle struct {
	fwk.Handle
	groups groups
}

func (h groupHandle) SnapshotSharedLister() fwk.SharedLister { return sharedLister{groups: h.groups} }
func (h groupHandle) PodGroupManager() fwk.PodGroupManager   { return h.groups }

type sharedLister struct {
	fwk.SharedLister
	groups groups
}

func (l sharedLister) PodGroups() fwk.PodGroupLister { return groupLister{l.groups} }

type groupLister struct{ groups }

func (l groupLister) Get(string, string) (*schedulingapi.PodGroup, error) { return l.group, nil }

type groups struct {
	fwk.PodGroupManager
	group     *schedulingapi.PodGroup
	scheduled []*v1.Pod
}

func (g groups) PodGroupStates() fwk.PodGroupStateLister { return stateLister{g} }

type stateLister struct{ groups }

func (l stateLister) Get(string, string) (fwk.PodGroupState, error) {
	return groupPods{groups: l.groups}, nil
}

type groupPods struct {
	fwk.PodGroupState
	groups groups
}

func (p groupPods) ScheduledPodsCount() int { return len(p.groups.scheduled) }

// groupInfo is what the framework tells about a group.
type groupInfo struct {
	fwk.PodGroupInfo
	group *schedulingapi.PodGroup
	pods  []*v1.Pod
}

func (i groupInfo) GetType() fwk.EntityKeyType           { return fwk.PodGroupKeyType }
func (i groupInfo) GetPodGroup() *schedulingapi.PodGroup { return i.group }
func (i groupInfo) GetUnscheduledPods() []*v1.Pod        { return i.pods }
func (i groupInfo) GetName() string                      { return i.group.Name }

func member(name string, claims ...string) *v1.Pod {
	pod := newPod(name, claims...)
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("group")}
	return pod
}

// inGroup makes the attempts part of one cycle of the group.
func inGroup(cycles ...*cycle) fwk.PodGroupCycleState {
	group := framework.NewCycleState()
	for _, c := range cycles {
		as[*framework.CycleState](c.state).SetPodGroupSchedulingCycle(group)
	}
	return group
}

// leaveGroup is the step from the cycle of the group to binding.
func leaveGroup(cycles ...*cycle) {
	for _, c := range cycles {
		as[*framework.CycleState](c.state).SetPodGroupSchedulingCycle(nil)
	}
}

// TestGroupSharesPendingAllocation: the second pod uses what was found for the
// first, before anything is written, and both get bound.
func TestGroupSharesPendingAllocation(t *testing.T) {
	r, _ := groupRig(t, nil, nil, func() *rig {
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	})
	first, second := r.cycle(member("p1", "c")), r.cycle(member("p2", "c"))
	inGroup(first, second)
	first.place("n1")
	r.succeed("PreFilter", second.preFilter())
	if got := second.filter("n2"); !strings.Contains(got.Message(), "resourceclaim not available on the node") {
		t.Errorf("other node: got %s: %s", got.Code(), got.Message())
	}
	r.succeed("Filter", second.filter("n1"))
	r.succeed("Reserve", second.reserve("n1"))
	leaveGroup(first, second)
	r.succeed("PreBind", second.preBind("n1"))
	r.succeed("PreBind", first.preBind("n1"))
	r.expect("c", []string{"d1"}, []string{"uid-p1", "uid-p2"})
}

// TestGroupMemberFails: what the others of the group use stays.
func TestGroupMemberFails(t *testing.T) {
	r, _ := groupRig(t, nil, nil, func() *rig {
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	})
	first, second := r.cycle(member("p1", "c")), r.cycle(member("p2", "c"))
	inGroup(first, second)
	first.place("n1")
	second.place("n1")
	first.unreserve("n1")
	if r.manager.ResourceClaims().GetPendingAllocation("uid-c") == nil {
		t.Fatal("the allocation that the second pod shares is gone")
	}
	leaveGroup(first, second)
	r.succeed("PreBind", second.preBind("n1"))
	r.expect("c", []string{"d1"}, []string{"uid-p2"})
}

// TestGroupUndone: if the whole group fails nothing is left.
func TestGroupUndone(t *testing.T) {
	r, _ := groupRig(t, nil, nil, func() *rig {
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	})
	first, second := r.cycle(member("p1", "c")), r.cycle(member("p2", "c"))
	inGroup(first, second)
	first.place("n1")
	second.place("n1")
	second.unreserve("n1")
	first.unreserve("n1")
	if r.manager.ResourceClaims().GetPendingAllocation("uid-c") != nil {
		t.Error("the allocation is still pending")
	}
	if len(r.api.writes()) != 0 {
		t.Errorf("unexpected writes: %v", r.api.writes())
	}
	again := r.cycle(member("p1", "c"))
	inGroup(again)
	again.place("n1")
}

// TestClaimOfGroup is reserved for the PodGroup, whatever happens to its pods.
func TestClaimOfGroup(t *testing.T) {
	r, _ := groupRig(t, nil, &schedulingapi.PodGroupResourceClaim{Name: "c", ResourceClaimName: new("c")}, func() *rig {
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	})
	first := r.cycle(member("p1", "c"))
	first.bind("n1")
	r.expect("c", []string{"d1"}, []string{"uid-group"})
	claim := r.api.claim(t, "c")
	if got := claim.Status.ReservedFor[0]; got.APIGroup != "scheduling.k8s.io" || got.Resource != "podgroups" || got.Name != "group" {
		t.Errorf("got consumer %+v", got)
	}
	r.seen(claim)
	r.cycle(member("p2", "c")).bind("n1")
	r.expect("c", []string{"d1"}, []string{"uid-group"})
	first.unreserve("n1")
	r.expect("c", []string{"d1"}, []string{"uid-group"})
}

func TestPodGroupPostFilter(t *testing.T) {
	ofGroup := &schedulingapi.PodGroupResourceClaim{Name: "c", ResourceClaimName: new("c")}
	for name, tc := range map[string]struct {
		claim     *schedulingapi.PodGroupResourceClaim
		consumers []string
		scheduled []*v1.Pod
		// node is where the pod is tried; the claim is allocated on n1.
		node                       string
		wantDevices, wantConsumers []string
	}{
		"in the wrong place": {node: "n2"},
		"in the wrong place, used by somebody else": {
			node: "n2", consumers: []string{"q"}, wantDevices: []string{"d1"}, wantConsumers: []string{"uid-q"},
		},
		"the group's, in the wrong place": {claim: ofGroup, consumers: []string{"group"}, node: "n2"},
		"the group's, which has scheduled pods": {
			claim: ofGroup, consumers: []string{"group"}, scheduled: []*v1.Pod{newPod("s")}, node: "n2",
			wantDevices: []string{"d1"}, wantConsumers: []string{"uid-group"},
		},
		"the group's, in the right place": {
			claim: ofGroup, consumers: []string{"group"}, node: "n1", wantDevices: []string{"d1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, group := groupRig(t, tc.scheduled, tc.claim, func() *rig {
				claim := used("c", "n1", "d1", tc.consumers...)
				if tc.claim != nil {
					claim.Status.ReservedFor[0].APIGroup, claim.Status.ReservedFor[0].Resource = "scheduling.k8s.io", "podgroups"
				}
				return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), claim)
			})
			c := r.cycle(member("p", "c"))
			state := inGroup(c)
			r.succeed("PreFilter", c.preFilter())
			c.filter(tc.node)
			_, got := r.plugin.PodGroupPostFilter(r.ctx, state, groupInfo{group: group, pods: []*v1.Pod{c.pod}}, nil)
			if got.Code() != fwk.Unschedulable {
				t.Errorf("got %s: %s", got.Code(), got.Message())
			}
			changed := cmp.Diff(tc.wantDevices, []string{"d1"}) != "" || cmp.Diff(tc.wantConsumers, consumersOf(used("c", "n1", "d1", tc.consumers...))) != ""
			if said := strings.Contains(got.Message(), "claim ns/c"); said != changed {
				t.Errorf("got message %q, something changed: %v", got.Message(), changed)
			}
			r.idle()
			r.expect("c", tc.wantDevices, tc.wantConsumers)
		})
	}
}
