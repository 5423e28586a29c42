// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// allocator implements structured.Allocator.
type allocator struct {
	features structured.Features
	state    *state
	classes  structured.DeviceClassLister
	matcher  *selector.Matcher
	cluster  *cluster
}

var _ structured.Allocator = &allocator{}

// NewAllocator returns an allocator with the signature, the contract and the
// answers of structured.NewAllocator. It never fails. A selector.Cache is a
// cel.Cache.
//
// The arguments are not changed and must not be changed by others as long as the
// allocator is in use. ResourceSlices that have a resourceVersion are taken for
// objects of an informer, which never change: what is known about them is kept
// for other allocators with the same celCache.
func NewAllocator(
	_ context.Context,
	features structured.Features,
	allocatedState structured.AllocatedState,
	classLister structured.DeviceClassLister,
	slices []*resourceapi.ResourceSlice,
	celCache *selector.Cache,
) (structured.Allocator, error) {
	m := memoryOf(celCache)
	return &allocator{
		features: features,
		state:    newState(allocatedState),
		classes:  classLister,
		matcher:  m.matcher,
		cluster:  m.cluster(features, slices),
	}, nil
}

// Allocate returns one allocation per claim, nil where there is none on the
// node, or an error.
func (a *allocator) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	pools, err := a.cluster.gather(node)
	if err != nil {
		return nil, fmt.Errorf("gather pool information: %w", err)
	}
	classes, err := a.check(claims, pools)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, aborted(ctx)
	}
	answers := &answers{matcher: a.matcher, pools: pools}
	problem, err := alloc.Compile(claims, classes.get, answers, a.options(ctx, node, pools, answers))
	if err != nil {
		return nil, err
	}
	outcome, err := problem.Allocate(a.view(node, pools))
	switch {
	case err != nil:
		return nil, stockError(err, claims)
	case outcome.GaveUp != nil:
		return nil, aborted(ctx)
	case outcome.Result != nil:
		return a.finish(outcome.Result, claims)
	}
	for _, p := range pools {
		if p.flaw == invalid {
			return nil, fmt.Errorf("invalid resource pools were encountered%w", structured.ErrFailedAllocationOnNode)
		}
	}
	return nil, nil
}

// options: only the caller decides when to give up.
func (a *allocator) options(ctx context.Context, node *v1.Node, pools []*pool, answers *answers) alloc.Options {
	rules := &alloc.StockRules{
		Scalars:     !a.features.ListTypeAttributes,
		Unshared:    !a.features.ConsumableCapacity,
		Consumption: wholeConsumption,
	}
	o := alloc.Options{Strategy: alloc.Listed, StepBudget: math.MaxInt, Stock: rules}
	if a.features.FractionalCapacityRange {
		rules.Consumption = fractionalConsumption
	}
	for _, p := range pools {
		if p.choosy {
			rules.Admit = func(d *inventory.Device) (alloc.Admission, error) { return answers.poolOf(d).admit(d, node) }
		}
	}
	if ctx.Done() != nil {
		o.Stop = ctx
	}
	return o
}

// view is what the node can use of the pools that can be used.
func (a *allocator) view(node *v1.Node, pools []*pool) *inventory.View {
	view := &inventory.View{Node: node, Pools: make([]inventory.PoolView, 0, len(pools))}
	for _, p := range pools {
		if p.flaw == none {
			view.Pools = append(view.Pools, inventory.PoolView{Pool: p.Pool, Devices: p.devices, Use: a.state.use(p)})
		}
	}
	return view
}

func aborted(ctx context.Context) error {
	return fmt.Errorf("filter operation aborted: %w", context.Cause(ctx))
}
