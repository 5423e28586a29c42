// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

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

// Case is what a pod has to do with extended resources.
type Case struct {
	Pod *v1.Pod
	// demands are the resources that classes serve; dangling are those that the
	// scheduler takes for served although there is no class any more.
	demands  []claim.Demand
	Dangling []v1.ResourceName
	// Kept is the claim that an earlier attempt made, to be used where it fits;
	// left are others, to be removed. Nobody but PostFilter and PreBind changes
	// them.
	Kept *resourceapi.ResourceClaim
	Left []*resourceapi.ResourceClaim
	// Broken says why the devices of kept will not become ready.
	Broken *podclaim.BindingError
	// Tainted says why the pod may not use the devices of kept.
	Tainted *podclaim.JoinError
	// Named is the special claim in the pod's status, which cannot be taken back;
	// settled are the demands that it serves, whatever device plugins offer by now.
	Named   string
	settled []claim.Demand
}

// CaseOf returns nil where the pod has nothing to do with devices that serve
// extended resources.
func (s *Claims) CaseOf(pod *v1.Pod) (*Case, error) {
	if !s.Enabled {
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
	claims, err := s.Specials.Of(pod, s.Manager.ResourceClaims())
	if err != nil {
		return nil, err
	}
	named := s.Specials.NameIn(pod)
	if len(demands) == 0 && len(dangling) == 0 && len(claims) == 0 && named == "" {
		return nil, nil
	}
	of := &Case{Pod: pod, demands: demands, Dangling: dangling, Named: named}
	of.Kept, of.Left = claim.ChooseSpecial(pod, claims)
	if of.Kept == nil {
		return of, nil
	}
	asked, current := askedBy(of.Kept, demands)
	switch {
	case !current:
		of.Left, of.Kept = append(of.Left, of.Kept), nil
	case of.Kept.Status.Allocation != nil:
		of.Broken = s.Bindings.BrokenBinding(of.Kept, s.Clock.Now())
		if of.Kept.Name == of.Named {
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
func (s *Claims) demandsOf(pod *v1.Pod) ([]claim.Demand, error) {
	classes, err := s.Manager.DeviceClasses().List()
	if err != nil {
		return nil, fmt.Errorf("list device classes: %w", err)
	}
	return claim.Demands(pod, slices.Values(classes)), nil
}

// ServedOn returns the demands that devices have to serve on a node: of a resource
// that a device plugin offers it gives.
func (of *Case) ServedOn(node fwk.NodeInfo) []claim.Demand {
	if of.settled != nil {
		return of.settled
	}
	return claim.ByDevices(of.demands, func(name v1.ResourceName) bool { return Offered(node, name) > 0 })
}

// Offered is how much of a resource a device plugin offers on the node.
func Offered(node fwk.NodeInfo, name v1.ResourceName) int64 {
	if node == nil {
		return 0
	}
	return node.GetAllocatable().GetScalarResources()[name]
}

// WaitingFor returns the special claim of a pod that waits for devices, where
// they serve some of its resources: one with an allocation, or one to be made.
func (s *Claims) WaitingFor(pod *v1.Pod, byDevices func(v1.ResourceName) bool) *podclaim.Claim {
	if !s.Enabled {
		return nil
	}
	names := slices.DeleteFunc(claim.ExtendedResources(pod), func(name v1.ResourceName) bool { return !byDevices(name) })
	if len(names) == 0 {
		return nil
	}
	claims, err := s.Specials.Of(pod, s.Manager.ResourceClaims())
	if kept, _ := claim.ChooseSpecial(pod, claims); err == nil && kept != nil && kept.Status.Allocation != nil {
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

// PluginFits is for how many pods like this one the device plugins of a node
// suffice.
func (of *Case) PluginFits(node fwk.NodeInfo) int {
	fits := math.MaxInt
	for _, d := range of.demands {
		if most := Offered(node, d.Resource); most > 0 {
			left := most - node.GetRequested().GetScalarResources()[d.Resource]
			fits = min(fits, int(max(left, 0)/d.Amount))
		}
	}
	return fits
}

// Always is for nodes where devices serve everything.
func Always(v1.ResourceName) bool { return true }

// ByDevicesOf tells which extended resources devices serve on a node.
func ByDevicesOf(node fwk.NodeInfo) func(v1.ResourceName) bool {
	return func(name v1.ResourceName) bool { return Offered(node, name) == 0 }
}

// wholeDevice is the size of a device in [alloc.Cost].
const wholeDevice = 1_000_000

// PluginCost is the cost of devices in a pool like that of the device plugin: equal
// ones that nobody can share.
func (of *Case) PluginCost(node fwk.NodeInfo) (cost alloc.Cost, served bool) {
	for _, d := range of.demands {
		if most := Offered(node, d.Resource); most > 0 {
			served = true
			cost.Size += d.Amount * wholeDevice
			cost.Open += int(most - node.GetRequested().GetScalarResources()[d.Resource])
		}
	}
	return cost, served
}
