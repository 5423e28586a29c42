// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"

	resourceapi "k8s.io/api/resource/v1"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// specialCase is what a pod has to do with extended resources.
type specialCase struct {
	pod *v1.Pod
	// demands are the resources that classes serve; dangling are those that the
	// scheduler takes for served although there is no class any more.
	demands  []claim.Demand
	dangling []v1.ResourceName
	// kept is the claim that an earlier attempt made, to be used where it fits;
	// left are others, to be removed. Nobody but PostFilter and PreBind changes
	// them.
	kept *resourceapi.ResourceClaim
	left []*resourceapi.ResourceClaim
	// broken says why the devices of kept will not become ready.
	broken *podclaim.BindingError
	// tainted says why the pod may not use the devices of kept.
	tainted *podclaim.JoinError
	// named is the special claim in the pod's status, which cannot be taken back;
	// settled are the demands that it serves, whatever device plugins offer by now.
	named   string
	settled []claim.Demand
}

// caseOf returns nil where the pod has nothing to do with devices that serve
// extended resources.
func (s *specialClaims) caseOf(pod *v1.Pod) (*specialCase, error) {
	if !s.enabled {
		return nil, nil
	}
	names := claim.ExtendedResources(pod)
	if len(names) == 0 {
		return nil, nil
	}
	demands, err := s.demandsOf(pod)
	if err != nil {
		return nil, err
	}
	dangling := s.alignResolver(names, demands)
	claims, err := s.specials.Of(pod, s.manager.ResourceClaims())
	if err != nil {
		return nil, err
	}
	named := s.specials.NameIn(pod)
	if len(demands) == 0 && len(dangling) == 0 && len(claims) == 0 && named == "" {
		return nil, nil
	}
	of := &specialCase{pod: pod, demands: demands, dangling: dangling, named: named}
	of.kept, of.left = podclaim.ChooseSpecial(pod, claims)
	if of.kept == nil {
		return of, nil
	}
	asked, current := askedBy(of.kept, demands)
	switch {
	case !current:
		of.left, of.kept = append(of.left, of.kept), nil
	case of.kept.Status.Allocation != nil:
		of.broken = s.bindings.BrokenBinding(of.kept, s.clock.Now())
		if of.kept.Name == of.named {
			of.settled = asked
		}
	}
	return of, nil
}

// askedBy returns the demands that a claim was made for, ok is false if it was made
// for something else: the pod's resources are served by other classes now.
func askedBy(c *resourceapi.ResourceClaim, demands []claim.Demand) (asked []claim.Demand, ok bool) {
	rest := c.Spec.Devices.Requests
	for _, d := range demands {
		n := len(d.Requests)
		if n <= len(rest) && apiequality.Semantic.DeepEqual(d.Requests, rest[:n]) {
			asked, rest = append(asked, d), rest[n:]
		}
	}
	return asked, len(rest) == 0 && len(asked) > 0
}

// demandsOf lists what a pod wants of the resources that classes serve now.
func (s *specialClaims) demandsOf(pod *v1.Pod) ([]claim.Demand, error) {
	classes, err := s.manager.DeviceClasses().List()
	if err != nil {
		return nil, fmt.Errorf("list device classes: %w", err)
	}
	return claim.Demands(pod, slices.Values(classes)), nil
}

// servedOn returns the demands that devices have to serve on a node: of a resource
// that a device plugin offers it gives.
func (of *specialCase) servedOn(node fwk.NodeInfo) []claim.Demand {
	if of.settled != nil {
		return of.settled
	}
	return claim.ByDevices(of.demands, func(name v1.ResourceName) bool { return offered(node, name) > 0 })
}

// offered is how much of a resource a device plugin offers on the node.
func offered(node fwk.NodeInfo, name v1.ResourceName) int64 {
	if node == nil {
		return 0
	}
	return node.GetAllocatable().GetScalarResources()[name]
}

// waitingSpecial returns the special claim of a pod that waits for devices, where
// they serve some of its resources: one with an allocation, or one to be made.
func (s *specialClaims) waitingSpecial(pod *v1.Pod, byDevices func(v1.ResourceName) bool) *podclaim.Claim {
	if !s.enabled {
		return nil
	}
	names := slices.DeleteFunc(claim.ExtendedResources(pod), func(name v1.ResourceName) bool { return !byDevices(name) })
	if len(names) == 0 {
		return nil
	}
	claims, err := s.specials.Of(pod, s.manager.ResourceClaims())
	if kept, _ := podclaim.ChooseSpecial(pod, claims); err == nil && kept != nil && kept.Status.Allocation != nil {
		return &podclaim.Claim{Claim: kept, Special: &podclaim.Special{Placeholder: podclaim.PlaceholderUID(pod.UID)}}
	}
	demands, err := s.demandsOf(pod)
	if err != nil {
		return nil
	}
	if demands = claim.ByDevices(demands, func(name v1.ResourceName) bool { return !byDevices(name) }); len(demands) > 0 {
		return podclaim.NewSpecial(pod, demands)
	}
	return nil
}

// pluginFits is for how many pods like this one the device plugins of a node
// suffice.
func (of *specialCase) pluginFits(node fwk.NodeInfo) int {
	fits := math.MaxInt
	for _, d := range of.demands {
		if most := offered(node, d.Resource); most > 0 {
			left := most - node.GetRequested().GetScalarResources()[d.Resource]
			fits = min(fits, int(max(left, 0)/d.Amount))
		}
	}
	return fits
}

func always(v1.ResourceName) bool { return true }

// byDevicesOf tells which extended resources devices serve on a node.
func byDevicesOf(node fwk.NodeInfo) func(v1.ResourceName) bool {
	return func(name v1.ResourceName) bool { return offered(node, name) == 0 }
}

// wholeDevice is the size of a device in [alloc.Cost].
const wholeDevice = 1_000_000

// pluginCost is the cost of devices in a pool like that of the device plugin: equal
// ones that nobody can share.
func (of *specialCase) pluginCost(node fwk.NodeInfo) (cost alloc.Cost, served bool) {
	for _, d := range of.demands {
		if most := offered(node, d.Resource); most > 0 {
			served = true
			cost.Size += d.Amount * wholeDevice
			cost.Open += int(most - node.GetRequested().GetScalarResources()[d.Resource])
		}
	}
	return cost, served
}
