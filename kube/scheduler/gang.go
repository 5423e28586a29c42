// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
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
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// The framework schedules the pods of a group one after the other and gives up if
// too few fit. What is best for the first may leave nothing for the second: the
// whole of a card where halves would do for both. So each pod of a gang (KEP-4671)
// leaves room for those that have to follow.

// gang is the room that a pod has to leave for others of its group.
type gang struct {
	// followers have the claims, equal to the pod's own, of the pods that have
	// to follow it.
	followers [][]*podclaim.Claim
	// extended is set where device plugins may give what is asked for.
	extended *extended
	// fits has, for each node, how many of the pod and its followers its devices
	// suffice for; total sums it up.
	fits  map[string]int
	total int
	// problems has the claims of the pod and of a number of followers, as far
	// as needed; compile makes one.
	problems map[int]*alloc.Problem
	compile  func(followers int) (*alloc.Problem, error)
}

// planGang works out what the pod has to leave to others. Pods of a group that
// need other devices are not looked at: that they fit is assumed.
func (pl *Plugin) planGang(ctx context.Context, s *cycleState, pod *v1.Pod, group *groupState, nodes []fwk.NodeInfo) error {
	if group == nil || s.problem == nil && s.extended == nil {
		return nil
	}
	logger := klog.FromContext(ctx)
	fits, total, most, needed := map[string]int{}, 0, 0, 0
	gangs := map[*attempt]*gang{}
	for _, node := range nodes {
		way := pl.wayOfGang(logger, s, node, pod)
		if way == nil {
			continue
		}
		if gangs[way] == nil {
			g, err := pl.newGang(way, s.extended, pod)
			if err != nil || len(g.followers) == 0 {
				return err
			}
			gangs[way], needed = g, max(needed, len(g.followers))
		}
		n, err := gangs[way].countOn(ctx, way, node)
		if err != nil {
			return err
		}
		fits[node.Node().Name] = n
		total += n
		if most = max(most, n); total-most >= needed {
			return nil // wherever the pod goes, the others fit elsewhere
		}
	}
	for way, g := range gangs {
		g.fits, g.total = fits, total
		if way.problem == nil {
			continue // device plugins count for themselves
		}
		if err := g.settle(); err != nil {
			return err
		}
		way.gang = g
		group.short = cmp.Or(group.short, g.short())
	}
	logger.V(5).Info("devices are scarce for the group", "pod", klog.KObj(pod), "followers", needed, "fit", total)
	return nil
}

// wayOfGang returns the attempt as it is for a node, nil if the pod cannot go there.
func (pl *Plugin) wayOfGang(logger klog.Logger, s *cycleState, node fwk.NodeInfo, pod *v1.Pod) *attempt {
	if !mayHost(logger, node.Node(), pod) {
		return nil
	}
	s, status := pl.wayTo(logger, s, node)
	if !status.IsSuccess() {
		return nil
	}
	return s.attempt
}

func (pl *Plugin) newGang(a *attempt, ext *extended, pod *v1.Pod) (*gang, error) {
	followers, err := pl.followersOf(a, pod)
	return &gang{
		followers: followers, extended: ext, problems: map[int]*alloc.Problem{0: a.problem},
		compile: func(n int) (*alloc.Problem, error) {
			return pl.compiler.Compile(slices.Concat(a.wanted, slices.Concat(followers[:n]...)))
		},
	}, err
}

// countOn returns for how many pods the node has devices, and device plugins have
// what they give.
func (g *gang) countOn(ctx context.Context, way *attempt, node fwk.NodeInfo) (int, error) {
	n := len(g.followers) + 1
	if g.extended != nil {
		n = min(n, g.extended.PluginFits(node))
	}
	if way.problem == nil || n == 0 {
		return n, nil
	}
	byDevices, err := g.count(ctx, way.purses.attempt, way.snapshot.View(node.Node()))
	return min(n, byDevices), err
}

// followersOf returns the claims of pods of the same gang that have to be
// scheduled after this one, as many as the gang needs, for the same nodes and with claims
// like its own.
func (pl *Plugin) followersOf(a *attempt, pod *v1.Pod) ([][]*podclaim.Claim, error) {
	podGroup, err := pl.lookup.groupOf(pod)
	if err != nil || podGroup == nil || podGroup.Spec.SchedulingPolicy.Gang == nil {
		return nil, err
	}
	state, err := pl.handle.SnapshotSharedLister().PodGroupStates().Get(podGroup.Namespace, podGroup.Name)
	if err != nil {
		return nil, err
	}
	needed := int(podGroup.Spec.SchedulingPolicy.Gang.MinCount) - state.ScheduledPodsCount() - 1
	waiting := state.UnscheduledPods()
	var followers [][]*podclaim.Claim
	for _, key := range slices.Sorted(maps.Keys(waiting)) {
		other := waiting[key]
		if other.UID == pod.UID {
			continue
		}
		if wanted, _, ok := pl.hints.waitingOn(other, a.byDevices); ok && sameNodes(pod, other) && alike(a.wanted, wanted) {
			followers = append(followers, wanted)
		} else {
			needed--
		}
	}
	return followers[:max(0, min(needed, len(followers)))], nil
}

// alike reports whether two pods want the same devices, each by claims of its own.
func alike(a, b []*podclaim.Claim) bool {
	return slices.EqualFunc(a, b, func(x, y *podclaim.Claim) bool {
		return x.Claim.UID != y.Claim.UID && x.References == y.References && apiequality.Semantic.DeepEqual(x.Claim.Spec, y.Claim.Spec)
	})
}

// sameNodes reports whether two pods may go to the same nodes, as far as mayHost can tell.
func sameNodes(a, b *v1.Pod) bool {
	return apiequality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		apiequality.Semantic.DeepEqual(requiredNodes(a), requiredNodes(b)) &&
		apiequality.Semantic.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations)
}

func requiredNodes(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
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
func (g *gang) count(ctx context.Context, purse *purse, view *inventory.View) (int, error) {
	if len(view.Pools) == 0 {
		return 0, nil
	}
	low, high := 0, len(g.followers)+1 // that many fit, that many and one more do not
	for low < high {
		middle := (low + high + 1) / 2
		problem, err := g.problem(middle - 1)
		if err != nil {
			return 0, err
		}
		outcome, err := purse.allocate(ctx, problem, view)
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

// problem returns that of the pod and a number of followers. It must not be called
// any more once the gang is settled.
func (g *gang) problem(followers int) (*alloc.Problem, error) {
	problem := g.problems[followers]
	if problem == nil {
		var err error
		if problem, err = g.compile(followers); err != nil {
			return nil, err
		}
		g.problems[followers] = problem
	}
	return problem, nil
}

// settle makes the problems that Filter will ask for, on several nodes at once.
func (g *gang) settle() error {
	if _, err := g.problem(g.leaves("")); err != nil {
		return err
	}
	for node := range g.fits {
		if _, err := g.problem(g.leaves(node)); err != nil {
			return err
		}
	}
	return nil
}

// leaves is the number of followers that have no other node to go to if the pod
// goes to this one. Nodes that were not counted have none of them.
func (g *gang) leaves(node string) int {
	elsewhere := g.total - g.fits[node]
	return max(0, len(g.followers)-elsewhere)
}

// short says that the group as a whole does not fit anywhere, empty where it may.
func (g *gang) short() string {
	if needed := len(g.followers) + 1; g.total < needed {
		return fmt.Sprintf("%s: pods of the group with such claims: needs %d, at most %d fit", noDevices, needed, g.total)
	}
	return ""
}

// filterGang looks for devices that leave enough for the followers.
func (pl *Plugin) filterGang(ctx context.Context, s *cycleState, view *inventory.View, node fwk.NodeInfo) *fwk.Status {
	logger := klog.FromContext(ctx)
	short := s.gang.short()
	kept := cmp.Or(short, noDevices+": devices are kept for other pods of the group")
	problem := s.gang.problems[s.gang.leaves(view.Node.Name)]
	found, status := pl.searchTogether(ctx, s, problem, view, fwk.Unschedulable, kept)
	switch {
	case !status.IsSuccess():
		return status
	case short != "":
		return refuse(logger, fwk.Unschedulable, short)
	}
	found.result = part(found.result, 0, len(s.wanted))
	return pl.accept(logger, s.attempt, node, found)
}
