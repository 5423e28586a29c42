// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
)

// specialOf returns the claim for the extended resources of a pod, nil where it has no
// devices: the pod gets others then.
func (w *World) specialOf(pod *v1.Pod) *resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, c := range w.claims {
		if claim.MayUseSpecial(pod, c) {
			claims = append(claims, c)
		}
	}
	kept, _ := claim.ChooseSpecial(pod, claims)
	if kept == nil || kept.Status.Allocation == nil {
		return nil
	}
	return kept
}

// Called is what a request of a special claim is for, in the words of whoever wrote the
// pod that it was made for; empty for other claims, and where there is no such pod.
func (w *World) Called(c *resourceapi.ResourceClaim, request string) string {
	if !claim.IsSpecial(c) {
		return ""
	}
	for _, pod := range w.pods {
		if claim.NamesSpecial(pod, c) || claim.MadeFor(pod, c) {
			return claim.PurposeOf(pod, c, request).String()
		}
	}
	return ""
}

// hasSpecial reports whether the pod has devices for its extended resources already.
func (v *Verdict) hasSpecial() bool {
	return slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Special })
}

// needless returns the claim that the status of the pod names for its extended
// resources, where device plugins of the node serve all of them and it has no devices;
// empty otherwise. The kubelet would not start the pod without that claim.
func (v *Verdict) needless(node *v1.Node) string {
	names := claim.ExtendedResources(v.Pod)
	status := v.Pod.Status.ExtendedResourceClaimStatus
	lacks := func(name v1.ResourceName) bool {
		return node.Status.Allocatable.Name(name, resource.DecimalSI).IsZero()
	}
	if status == nil || len(names) == 0 || v.hasSpecial() || slices.ContainsFunc(names, lacks) {
		return ""
	}
	return status.ResourceClaimName
}

// demandsOn lists what devices have to serve on a node.
func (w *World) demandsOn(v *Verdict, node *v1.Node) []claim.Demand {
	if v.hasSpecial() {
		return nil // it has what it asked for
	}
	return w.servedOn(v.Pod, node)
}

// servedOn lists what devices serve on a node of the extended resources of a pod.
func (w *World) servedOn(pod *v1.Pod, node *v1.Node) []claim.Demand {
	return claim.ByDevices(claim.Demands(pod, slices.Values(w.cluster.DeviceClasses)), func(name v1.ResourceName) bool {
		return !node.Status.Allocatable.Name(name, resource.DecimalSI).IsZero()
	})
}

// way is what has to be solved on nodes where devices serve the same resources.
type way struct {
	special *resourceapi.ResourceClaim
	problem *alloc.Problem
	// containers counts, for each claim of the problem, those that refer to it.
	containers []int
	demands    []claim.Demand
	// overQuota is why a ResourceQuota refuses the special claim, empty where none does.
	overQuota string
}

// wayFor returns nil where a class cannot be used; the verdict says so.
func (w *World) wayFor(v *Verdict, demands []claim.Demand) (*way, error) {
	if len(demands) == 0 {
		return &way{problem: v.problem, containers: v.containers()}, nil
	}
	key := claim.ResourcesOf(demands)
	if found := v.ways[key]; found != nil {
		return found, nil
	}
	made := &way{special: claim.NewSpecial(v.Pod, demands), demands: demands}
	_, users := claim.MappingsOf(demands)
	made.containers = append(v.containers(), len(users))
	var err error
	made.problem, err = w.compile(append(slices.Clip(v.pending), made.special), made.containers)
	if input := (*alloc.InputError)(nil); errors.As(err, &input) {
		v.Obstacle = &Obstacle{Kind: BadInput, Input: input}
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	made.overQuota = w.specialOverQuota(v, made.special)
	if v.ways == nil {
		v.ways = map[string]*way{}
	}
	v.ways[key] = made
	return made, nil
}

// Wanted are the claims that results and refusals of the node are about, in their
// order: the pending ones, and the one for extended resources where devices serve some
// of them there.
func (n *NodeVerdict) Wanted() []*resourceapi.ResourceClaim {
	if n.way == nil || n.way.special == nil {
		return n.pending
	}
	return append(slices.Clip(n.pending), n.way.special)
}

// Called is what a request is for, where its name does not say it.
func (n *NodeVerdict) Called(ref alloc.RequestRef) string {
	if n.way == nil || n.way.special == nil || ref.Claim != n.way.special.Namespace+"/"+n.way.special.Name {
		return ""
	}
	mappings, _ := claim.MappingsOf(n.way.demands)
	return claim.PurposeIn(mappings, ref.Request).String()
}

// specialUsers are the containers that use the claim for extended resources; nil for
// other claims.
func (v *Verdict) specialUsers(c Claim) []string {
	switch status := v.Pod.Status.ExtendedResourceClaimStatus; {
	case !c.Special:
		return nil
	case status != nil:
		return claim.ContainersIn(status.RequestMappings)
	case v.Best != nil && v.Best.way != nil:
		_, containers := claim.MappingsOf(v.Best.way.demands)
		return containers
	}
	return nil
}

// placeSpecial gives the pod the claim for its extended resources.
func (w *World) placeSpecial(v *Verdict) {
	if v.Best.way == nil || v.Best.way.special == nil {
		return
	}
	placed := *v.Best.way.special
	placed.Status.Allocation = &v.Best.Outcome.Result.Claims[len(v.pending)]
	placed.Status.ReservedFor = []claim.Consumer{claim.AsConsumer(v.Pod)}
	v.Claims = append(v.Claims, Claim{Object: &placed, New: true, Special: true})
	w.setClaim(&placed)
}
