// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// What came of an allocation.
const (
	given    = "given"
	refused  = "refused"
	badInput = "bad input"
)

// look takes snapshots, asks them all that there is to ask, and compares what they say.
func (h *history) look() {
	known, summed := h.byClaim.Snapshot(), h.bySum.Snapshot()
	h.past[known], h.past[summed] = describe(known), describe(summed)
	h.stats["snapshots"]++
	for _, s := range []*inventory.Snapshot{known, summed} {
		h.ask(s)
	}
	pools, uses := partsOf(known)
	others, otherUses := partsOf(summed)
	if len(pools) != len(others) {
		h.fault("%d pools by claims, %d by sums", len(pools), len(others))
		return
	}
	for i, pool := range pools {
		h.checkSums(pool, uses[i])
		if h.comparable() {
			h.compare(pool, uses[i], otherUses[i])
		}
	}
	for _, node := range nodes {
		h.whatIf(known.View(node), true)
		h.whatIf(summed.View(node), false)
	}
}

// partsOf are the pools, and the parts of those that are split.
func partsOf(s *inventory.Snapshot) (pools []*inventory.Pool, uses []*inventory.PoolUse) {
	for pool, use := range s.Pools {
		pools, uses = append(pools, pool), append(uses, use)
	}
	return pools, uses
}

// ask asks what nobody checks the answer of.
func (h *history) ask(s *inventory.Snapshot) {
	for _, name := range names(h.claims) {
		if a := h.claims[name].Status.Allocation; a != nil {
			s.DevicesOf(a)
		}
	}
	for pool := range s.Pools {
		for range s.PoolsNamed(pool.ID) {
		}
		for _, node := range nodes {
			s.PoolOn(pool.ID, node)
		}
		for _, d := range pool.Devices {
			if d.Content() != d.Identified().Content() {
				h.fault("%s: the content differs", d.ID)
			}
			s.Holders(d.ID)
			if s.Device(d.ID, "n1") == nil {
				h.fault("%s is not found", d.ID)
			}
		}
	}
}

// checkSums compares what is taken of devices with what claims hold.
func (h *history) checkSums(p *inventory.Pool, use *inventory.PoolUse) {
	for _, d := range p.Devices {
		if p.Device(d.ID.Device) != d {
			continue // published twice, the pool offers nothing
		}
		whole, shares := 0, 0
		consumed := map[resourceapi.QualifiedName]inventory.Amount{}
		for _, hold := range h.holds() {
			switch {
			case hold.Device != d.ID:
				continue
			case hold.ShareID == "":
				whole++
			default:
				shares++
			}
			for name, amount := range hold.Consumed {
				if name = inventory.LocalName(driver, name); amount.Sign() > 0 {
					consumed[name] = consumed[name].Add(amount)
				}
			}
		}
		o := use.Taken[d.Index]
		if o == nil {
			if whole+shares > 0 {
				h.fault("%s is free, want it taken %d times", d.ID, whole+shares)
			}
			continue
		}
		if o.Dedicated != (whole > 0) || o.Shares != shares || len(o.Holders) != whole+shares {
			h.fault("%s is taken as %+v, want %d as a whole and %d shares", d.ID, o, whole, shares)
		}
		for _, name := range append(names(consumed), names(o.Consumed)...) {
			if got := o.ConsumedOf(driver, name); got != consumed[name] {
				h.fault("%s: %v of %s is consumed, want %v", d.ID, got, name, consumed[name])
			}
		}
	}
}

// comparable tells whether the manager's sums say as much as the claims: with amounts
// below nothing, or more than an Amount holds, they do not.
func (h *history) comparable() bool {
	return !slices.ContainsFunc(h.holds(), func(hold inventory.Hold) bool {
		for _, amount := range hold.Consumed {
			if amount.Sign() < 0 || amount.Cmp(most) > 0 {
				return true
			}
		}
		return false
	})
}

var most = inventory.AmountOf(resource.MustParse("1e26"))

// compare compares what is taken by the books of the claims and by sums.
func (h *history) compare(p *inventory.Pool, known, summed *inventory.PoolUse) {
	h.stats["compared"]++
	for _, d := range p.Devices {
		a, b := known.Taken[d.Index], summed.Taken[d.Index]
		if (a == nil) != (b == nil) {
			h.fault("%s: taken by claims %v, by sums %v", d.ID, a, b)
		}
		if a == nil || b == nil {
			continue
		}
		if a.Dedicated != b.Dedicated || a.Shares != b.Shares {
			h.fault("%s: taken by claims as %+v, by sums as %+v", d.ID, a, b)
		}
		for _, name := range append(names(a.Consumed), names(b.Consumed)...) {
			if a.ConsumedOf(driver, name) != b.ConsumedOf(driver, name) {
				h.fault("%s: %v of %s is consumed by claims, %v by sums", d.ID, a.ConsumedOf(driver, name), name, b.ConsumedOf(driver, name))
			}
		}
	}
	if !slices.Equal(known.Free, summed.Free) {
		h.fault("%s: left by claims %v, by sums %v", p.ID, known.Free, summed.Free)
	}
}

// whatIf frees and takes what it likes, and must not change the view. With all that is
// held freed, no more is there than is published.
func (h *history) whatIf(v *inventory.View, known bool) {
	before := describeView(v)
	all := h.holds()
	some := slices.DeleteFunc(slices.Clone(all), func(inventory.Hold) bool { return h.often() })
	taken := inventory.HoldsOf(h.taker("new"))
	v.WhatIf(some, taken).WhatIf(taken, some).WhatIf(append(all, all...), nil)
	for i := range v.Pools {
		v.Vacated(v.Pools[i].Devices)
	}
	free := v.WhatIf(all, nil)
	for i := range free.Pools {
		h.checkFreed(&free.Pools[i], &v.Pools[i], known)
	}
	if after := describeView(v); after != before {
		h.fault("the view changed, from\n%s\nto\n%s", before, after)
	}
}

func (h *history) checkFreed(freed, before *inventory.PoolView, known bool) {
	for i, d := range freed.Pool.Devices {
		o := freed.Use.Taken[i]
		if o == nil {
			continue
		}
		if known {
			h.fault("%s is still taken: %+v", d.ID, o)
		}
		for name, amount := range o.Consumed {
			if amount.Sign() < 0 || amount.Cmp(before.Use.Taken[i].Consumed[name]) > 0 {
				h.fault("%s: %v of %s is consumed after all was freed, %v before", d.ID, amount, name, before.Use.Taken[i].Consumed[name])
			}
		}
	}
	for i, c := range freed.Pool.Counters {
		drawn := slices.ContainsFunc(freed.Pool.Devices, func(d *inventory.Device) bool {
			return slices.ContainsFunc(d.Draws, func(draw inventory.Draw) bool { return draw.Counter == i && draw.Amount.Sign() < 0 })
		})
		if freed.Use.Free[i].Cmp(c.Value) > 0 && !drawn {
			h.fault("%s: %v of counter %s is left, %v is published", freed.Pool.ID, freed.Use.Free[i], c.Name, c.Value)
		}
	}
}

var matcher = selector.New()

func classes(string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}}
}

// allocate has package alloc allocate a claim on a node, by both books, and keeps the
// result.
func (h *history) allocate() {
	claim := h.request(pick(h.source, "w", "x", "y", "z"))
	if old := h.claims[claim.Name]; old != nil && old.Status.Allocation != nil {
		return
	}
	node := nodes[h.intn(2)]
	var room map[v1.ResourceName]inventory.Amount
	if h.often() {
		room = map[v1.ResourceName]inventory.Amount{v1.ResourceMemory: inventory.AmountOf(h.amount())}
	}
	known := h.solve(claim, h.byClaim.Snapshot().View(node), room)
	summed := h.solve(claim, h.bySum.Snapshot().View(node), room)
	if h.comparable() && (known == nil) != (summed == nil) {
		h.fault("claim %s: by claims %+v, by sums %+v", claim.Name, known, summed)
	}
	if known == nil {
		return
	}
	claim.Status.Allocation = known
	for i := range known.Devices.Results {
		if r := &known.Devices.Results[i]; r.ShareID != nil {
			// Who holds two shares at different times has them under different IDs.
			r.ShareID = new(types.UID(fmt.Sprintf("%s-%d-%d", claim.Name, h.stats[given], i)))
		}
	}
	h.set(claim)
}

func (h *history) solve(claim *resourceapi.ResourceClaim, view *inventory.View, room map[v1.ResourceName]inventory.Amount) *resourceapi.AllocationResult {
	view.Room = room
	claims := []*resourceapi.ResourceClaim{claim}
	options := alloc.Options{Containers: []int{1}}
	problem, err := alloc.Compile(claims, classes, matcher, options)
	if input := (*alloc.InputError)(nil); errors.As(err, &input) {
		h.stats[badInput]++
		return nil
	}
	if err != nil {
		h.fault("claim %s: %v", claim.Name, err)
		return nil
	}
	out, err := problem.Allocate(view)
	switch {
	case err != nil:
		h.fault("claim %s: %v", claim.Name, err)
	case out.Refusal != nil:
		h.stats[refused]++
		remedies := explain.Remedies(out.Refusal, view, func(v *inventory.View) bool {
			v.Room = room
			out, err := problem.Allocate(v)
			return err == nil && out.Result != nil
		})
		if explain.Describe(out.Refusal, explain.Options{Claims: claims, View: view, Remedies: remedies}).Text() == "" {
			h.fault("claim %s is refused without a word", claim.Name)
		}
	case out.Result != nil:
		h.stats[given]++
		for _, violation := range alloc.Check(view, claims, classes, matcher, options.Containers, out.Result.Claims) {
			h.fault("%s\n%s", violation, describeView(view))
		}
		alloc.NodeFootprint(out.Result.Claims[0].Devices.Results, out.Result.Devices[0])
		return &out.Result.Claims[0]
	}
	return nil
}

// describe writes down all that is taken and left.
func describe(s *inventory.Snapshot) string {
	var b strings.Builder
	for pool, use := range s.Pools {
		fmt.Fprintf(&b, "%s %v\n%s", pool, pool.Counters, describeUse(use))
	}
	return b.String()
}

func describeView(v *inventory.View) string {
	var b strings.Builder
	for i := range v.Pools {
		pv := &v.Pools[i]
		fmt.Fprintf(&b, "%s %v\n%s", pv.Pool, pv.Pool.Counters, describeUse(pv.Use))
		for _, d := range pv.Devices {
			fmt.Fprintf(&b, "  %s %v %v %v\n", d.ID, d.Draws, d.Spec.AllowMultipleAllocations, d.Spec.Capacity)
		}
	}
	return b.String()
}

func describeUse(use *inventory.PoolUse) string {
	var b strings.Builder
	for i, o := range use.Taken {
		if o != nil {
			fmt.Fprintf(&b, "  %d %+v\n", i, *o)
		}
	}
	for _, name := range names(use.Gone) {
		fmt.Fprintf(&b, "  gone %s %+v\n", name, *use.Gone[name])
	}
	fmt.Fprintf(&b, "  %v %v\n", use.Free, use.Closed)
	return b.String()
}
