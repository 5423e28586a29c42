// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// The framework schedules the pods of a group one after the other and gives up if
// too few fit. What is best for the first may leave nothing for the second: the
// whole of a card where halves would do for both. So each pod of a gang (KEP-4671)
// leaves room for those that have to follow.

// gang is the room that a pod has to leave for others of its group.
type gang struct {
	// followers have the claims, equal to the pod's own, of the pods that have
	// to follow it.
	followers [][]*podClaim
	// fits has, for each node, how many of the pod and its followers its devices
	// suffice for; total sums it up.
	fits  map[string]int
	total int
	// problems has, for a number of followers, the claims of the pod and of
	// that many of them.
	problems []*alloc.Problem
}

// planGang works out what the pod has to leave to others. Pods of a group that
// need other devices are not looked at: that they fit is assumed.
func (pl *Plugin) planGang(ctx context.Context, a *attempt, pod *v1.Pod, group *groupState, nodes []fwk.NodeInfo) error {
	if group == nil || a.problem == nil {
		return nil
	}
	followers, err := pl.followersOf(a, pod)
	if err != nil || len(followers) == 0 {
		return err
	}
	g := &gang{followers: followers, fits: map[string]int{}, problems: []*alloc.Problem{a.problem}}
	claims := slices.Clone(a.wanted)
	for _, follower := range followers {
		claims = append(claims, follower...)
		problem, err := pl.compile(claims)
		if err != nil {
			return err
		}
		g.problems = append(g.problems, problem)
	}
	most := 0
	for _, node := range nodes {
		if !mayHost(klog.FromContext(ctx), node.Node(), pod) {
			continue
		}
		n, err := g.count(a.snapshot.View(node.Node()))
		if err != nil {
			return err
		}
		g.fits[node.Node().Name] = n
		g.total += n
		if most = max(most, n); g.total-most >= len(followers) {
			return nil // wherever the pod goes, the others fit elsewhere
		}
	}
	a.gang = g
	klog.FromContext(ctx).V(5).Info("devices are scarce for the group", "pod", klog.KObj(pod), "followers", len(followers), "fit", g.total)
	return nil
}

// followersOf returns the claims of pods of the same gang that have to be
// scheduled after this one, as many as the gang needs and with claims like its own.
func (pl *Plugin) followersOf(a *attempt, pod *v1.Pod) ([][]*podClaim, error) {
	podGroup, err := pl.groupOf(pod)
	if err != nil || podGroup == nil || podGroup.Spec.SchedulingPolicy.Gang == nil {
		return nil, err
	}
	state, err := pl.handle.SnapshotSharedLister().PodGroupStates().Get(podGroup.Namespace, podGroup.Name)
	if err != nil {
		return nil, err
	}
	needed := int(podGroup.Spec.SchedulingPolicy.Gang.MinCount) - state.ScheduledPodsCount() - 1
	waiting := state.UnscheduledPods()
	var followers [][]*podClaim
	for _, key := range slices.Sorted(maps.Keys(waiting)) {
		other := waiting[key]
		if other.UID == pod.UID {
			continue
		}
		if wanted, _, ok := pl.waiting(other); ok && alike(a.wanted, wanted) {
			followers = append(followers, wanted)
		} else {
			needed--
		}
	}
	return followers[:max(0, min(needed, len(followers)))], nil
}

// alike reports whether two pods want the same devices, each by claims of its own.
func alike(a, b []*podClaim) bool {
	return slices.EqualFunc(a, b, func(x, y *podClaim) bool {
		return x.claim.UID != y.claim.UID && x.references == y.references && apiequality.Semantic.DeepEqual(x.claim.Spec, y.claim.Spec)
	})
}

// mayHost reports whether the pod may go to the node, as far as that is easy to
// tell.
func mayHost(logger klog.Logger, node *v1.Node, pod *v1.Pod) bool {
	if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
		return false
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule
	}, true)
	return !untolerated
}

// count returns for how many pods the node has devices. Where the search gives up
// they count as fitting: nobody has shown that they do not.
func (g *gang) count(view *inventory.View) (int, error) {
	if len(view.Pools) == 0 {
		return 0, nil
	}
	low, high := 0, len(g.problems) // that many fit, that many and one more do not
	for low < high {
		middle := (low + high + 1) / 2
		outcome, err := g.problems[middle-1].Allocate(view)
		if err != nil {
			return 0, err
		}
		if outcome.Refusal == nil {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, nil
}

// problemOn returns the problem to solve on a node: the claims of the pod and of as
// many followers as have no other node to go to.
func (g *gang) problemOn(node string) *alloc.Problem {
	elsewhere := g.total - g.fits[node]
	return g.problems[max(0, len(g.followers)-elsewhere)]
}

// short refuses the pod where its group as a whole does not fit anywhere.
func (g *gang) short(logger klog.Logger) *fwk.Status {
	if needed := len(g.followers) + 1; g.total < needed {
		return refuse(logger, fwk.Unschedulable, fmt.Sprintf("%s: pods of the group with such claims: needs %d, at most %d fit", noDevices, needed, g.total))
	}
	return nil
}

// filterGang looks for devices that leave enough for the followers.
func (pl *Plugin) filterGang(logger klog.Logger, s *cycleState, view *inventory.View, node fwk.NodeInfo) *fwk.Status {
	problem := s.gang.problemOn(view.Node.Name)
	found, outcome, err := s.searchFor(problem, view)
	if err != nil || outcome.Result == nil {
		alone, own, ownErr := s.search(view)
		if alone.result == nil || ownErr != nil {
			return pl.statusOf(logger, s.attempt, view, own, ownErr)
		}
		if status := s.gang.short(logger); !status.IsSuccess() {
			return status
		}
		return refuse(logger, fwk.Unschedulable, noDevices+": devices are kept for other pods of the group")
	}
	if status := s.gang.short(logger); !status.IsSuccess() {
		return status
	}
	found.result = firstOf(found.result, len(s.wanted))
	return pl.accept(logger, s.attempt, node, found)
}

// firstOf returns the part of a result for the first n claims. The cost stays that
// of all.
func firstOf(r *alloc.Result, n int) *alloc.Result {
	return &alloc.Result{Claims: r.Claims[:n], Devices: r.Devices[:n], Cost: r.Cost}
}
