// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// waitingGroup is a group none of whose pods is scheduled.
type waitingGroup struct {
	groups
	pods map[string]*v1.Pod
}

func (g waitingGroup) PodGroups() fwk.PodGroupLister           { return groupLister{g.groups} }
func (g waitingGroup) PodGroupStates() fwk.PodGroupStateLister { return waitingStates{g} }

type waitingStates struct{ waitingGroup }

func (s waitingStates) Get(string, string) (fwk.PodGroupState, error) {
	return waitingState{waitingGroup: s.waitingGroup}, nil
}

type waitingState struct {
	fwk.PodGroupState
	waitingGroup
}

func (s waitingState) UnscheduledPods() map[string]*v1.Pod { return s.pods }
func (s waitingState) ScheduledPodsCount() int             { return 0 }

type waitingLister struct {
	fwk.SharedLister
	group waitingGroup
}

func (l waitingLister) PodGroups() fwk.PodGroupLister           { return l.group.PodGroups() }
func (l waitingLister) PodGroupStates() fwk.PodGroupStateLister { return l.group.PodGroupStates() }

type waitingHandle struct {
	fwk.Handle
	group waitingGroup
}

func (h waitingHandle) SnapshotSharedLister() fwk.SharedLister { return waitingLister{group: h.group} }

// TestGangWithExtendedResources counts devices and what device plugins offer.
func TestGangWithExtendedResources(t *testing.T) {
	for name, tc := range map[string]struct {
		pods int
		asks []string
		// offered is what the plugin of p1 offers.
		offered     []string
		wantRefused string
	}{
		"enough devices":                       {pods: 2, asks: []string{gpu + "=1"}},
		"too few devices":                      {pods: 3, asks: []string{gpu + "=1"}, wantRefused: "needs 3, at most 2 fit"},
		"the plugin has the rest":              {pods: 3, asks: []string{gpu + "=1"}, offered: []string{gpu + "=1"}},
		"the plugin has too few":               {pods: 4, asks: []string{gpu + "=1"}, offered: []string{gpu + "=1"}, wantRefused: "needs 4, at most 3 fit"},
		"two of a kind":                        {pods: 2, asks: []string{gpu + "=2"}, wantRefused: "needs 2, at most 1 fit"},
		"the plugin has one, devices the rest": {pods: 3, asks: []string{gpu + "=1", nic + "=1"}, offered: []string{nic + "=5"}, wantRefused: "needs 3, at most 2 fit"},
	} {
		t.Run(name, func(t *testing.T) {
			group := waitingGroup{groups: groups{group: &schedulingapi.PodGroup{}}, pods: map[string]*v1.Pod{}}
			group.group.Name, group.group.Namespace = "group", "ns"
			group.group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(tc.pods)}
			objects := []runtime.Object{mappedClass("gpu", 1, gpu, "g"), mappedClass("nic", 1, nic, "n"), newSlice("n1", append(gpus("g", 2), gpus("n", 2)...)...)}
			for i := range tc.pods {
				pod := member(fmt.Sprintf("p%d", i))
				pod.Spec.Containers = []v1.Container{container("a", tc.asks...)}
				group.pods[pod.Name] = pod
				objects = append(objects, pod)
			}
			r := newRig(t, "", objects...)
			r.stand(waitingHandle{r.plugin.handle, group})
			c := r.cycle(group.pods["p0"])
			inGroup(c)
			n1, p1 := nodeOffering("n1"), nodeOffering("p1", tc.offered...)
			if tc.offered == nil {
				p1 = nodeOffering("p1", nic+"=9")
			}
			_, status := r.plugin.PreFilter(r.ctx, c.state, c.pod, []fwk.NodeInfo{n1, p1})
			r.succeed("PreFilter", status)
			got := c.filterOn(n1)
			if tc.wantRefused == "" {
				r.succeed("Filter", got)
			} else if !strings.Contains(got.Message(), tc.wantRefused) {
				t.Errorf("got %s: %s, want %s", got.Code(), got.Message(), tc.wantRefused)
			}
		})
	}
}

// gangOf is a rig with a gang of pods none of which is scheduled.
func gangOf(t *testing.T, pods []*v1.Pod, objects ...runtime.Object) (*rig, waitingGroup) {
	t.Helper()
	group := waitingGroup{groups: groups{group: &schedulingapi.PodGroup{}}, pods: map[string]*v1.Pod{}}
	group.group.Name, group.group.Namespace = "group", "ns"
	group.group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(len(pods))}
	for _, pod := range pods {
		group.pods[pod.Name] = pod
		objects = append(objects, pod)
	}
	r := newRig(t, "", objects...)
	r.stand(waitingHandle{r.plugin.handle, group})
	return r, group
}

// TestGangWithPodsForOtherNodes: what follows to another node is not counted on the pod's own.
func TestGangWithPodsForOtherNodes(t *testing.T) {
	for name, change := range map[string]func(pod *v1.Pod, node string){
		"node selector": func(pod *v1.Pod, node string) {
			pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
		},
		"affinity": func(pod *v1.Pod, node string) {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []*v1.Pod{member("p1", "c1"), member("p2", "c2")}
			change(pods[0], "n1")
			change(pods[1], "n2")
			r, _ := gangOf(t, pods, newClass(), newClaim("c1"), newClaim("c2"), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")))
			c := r.cycle(pods[0])
			inGroup(c)
			_, status := r.plugin.PreFilter(r.ctx, c.state, c.pod, []fwk.NodeInfo{nodeInfo("n1"), nodeInfo("n2")})
			r.succeed("PreFilter", status)
			r.succeed("Filter", c.filter("n1"))
		})
	}
}

// TestGangSaysHowManyFit: the pod that was tried, the group, and the pods that were not
// tried any more.
func TestGangSaysHowManyFit(t *testing.T) {
	pods := []*v1.Pod{member("p1", "c1"), member("p2", "c2"), member("p3", "c3")}
	r, group := gangOf(t, pods, newClass(), newClaim("c1"), newClaim("c2"), newClaim("c3"), newSlice("n1", newDevice("d1"), newDevice("d2")))
	c := r.cycle(pods[0])
	cycle := inGroup(c)
	_, status := r.plugin.PreFilter(r.ctx, c.state, c.pod, []fwk.NodeInfo{nodeInfo("n1")})
	r.succeed("PreFilter", status)
	const want = "cannot allocate all claims: pods of the group with such claims: needs 3, at most 2 fit"
	if got := c.filter("n1").Message(); got != want {
		t.Errorf("the first pod reads %q, want %q", got, want)
	}
	_, status = r.plugin.PodGroupPostFilter(r.ctx, cycle, groupInfo{group: group.group, pods: pods}, nil)
	if got := status.Message(); status.Code() != fwk.Unschedulable || got != want {
		t.Errorf("the group reads %s: %q, want %q", status.Code(), got, want)
	}
	for range pods[1:] {
		if got := r.event(); got != "Warning DevicesUnavailable "+want {
			t.Errorf("the others read the event %q", got)
		}
	}
	if got := r.event(); got != "" {
		t.Errorf("got one more event: %s", got)
	}
}
