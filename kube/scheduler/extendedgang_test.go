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
			r.plugin.handle = waitingHandle{r.plugin.handle, group}
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
