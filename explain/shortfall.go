// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// shortfall is a capacity of which a device has less than a request takes.
type shortfall struct {
	kind shortfallKind
	// name is as the request spells it or, where it does not name it, the device.
	name resourceapi.QualifiedName
	// takes is what the request takes: the amount that it names or, in words, what the
	// policy of the device makes of that it names none.
	takes, words string
	// has is the whole capacity, there what a request could have of it.
	has   string
	there inventory.Amount
}

// shortfallKind is why a request cannot have as much as it takes.
type shortfallKind int

const (
	missing   shortfallKind = iota // the device does not have the capacity
	tooLittle                      // all of it is too little
	limited                        // the policy lets no single request have as much
	used                           // others have too much of it
)

// tooSmall names the first capacity of which the device has less than the request
// takes. It continues "the device is".
func (o *Options) tooSmall(r *alloc.RequestReport, d *inventory.Device) string {
	requests, ok := o.capacityAsked(r)
	if !ok {
		return losses[alloc.StageCapacity]
	}
	if text := spelledTwice(d, requests); text != "" {
		return text
	}
	s := o.shortfall(d, requests)
	if s == nil {
		return "not able to give the capacity that is asked for"
	}
	switch s.kind {
	case missing:
		return fmt.Sprintf("too small: no %s, %s", s.name, s.words)
	case tooLittle:
		return fmt.Sprintf("too small: %s %s, %s", s.name, s.has, s.words)
	case limited:
		return fmt.Sprintf("not able to give %s of %s to one request: its policy allows %s at most", s.takes, s.name, Amount(s.there))
	}
	return fmt.Sprintf("too small: %s of %s %s left, %s, the rest %s", Amount(s.there), s.has, s.name, s.words, o.heldBy(d.ID))
}

// capacityAsked is what a request names of capacities; ok is false where the request is
// not known.
func (o *Options) capacityAsked(r *alloc.RequestReport) (requests map[resourceapi.QualifiedName]resource.Quantity, ok bool) {
	asked, ok := o.asked(r.Claim, r.Request)
	if asked.Capacity != nil {
		requests = asked.Capacity.Requests
	}
	return requests, ok
}

// shortfall is the first of a device: of what the request names or, where that is not
// it, of what the policy of the device makes of it. It is nil where that is not known.
func (o *Options) shortfall(d *inventory.Device, requests map[resourceapi.QualifiedName]resource.Quantity) *shortfall {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		wanted := requests[name]
		s := &shortfall{name: name, takes: inventory.QuantityText(wanted), words: inventory.QuantityText(wanted) + " asked"}
		_, c, found := inventory.Named(d.Spec.Capacity, d.ID.Driver, name)
		if !found {
			return s
		}
		s.has, s.there = inventory.QuantityText(c.Value), inventory.AmountOf(c.Value)
		if c.Value.Cmp(wanted) < 0 {
			s.kind = tooLittle
			return s
		}
		if most, is := mostAtOnce(&c); is && most.Cmp(wanted) < 0 {
			s.kind, s.there = limited, inventory.AmountOf(most)
			return s
		}
		if left, shared := o.capacityLeft(d, name, c.Value); shared && left.Cmp(inventory.AmountOf(wanted)) < 0 {
			s.kind, s.there = used, NotBelowZero(left)
			return s
		}
	}
	return o.usedUp(d, requests)
}

// usedUp is a capacity of which shares leave less than the request takes by the
// device's policy: the default or everything where it names no amount, else what it
// asks for, rounded up. It is nil where that could be several.
func (o *Options) usedUp(d *inventory.Device, requests map[resourceapi.QualifiedName]resource.Quantity) *shortfall {
	var rounded []*shortfall
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Capacity)) {
		c := d.Spec.Capacity[name]
		left, shared := o.capacityLeft(d, name, c.Value)
		if !shared {
			continue
		}
		s := &shortfall{kind: used, name: name, has: inventory.QuantityText(c.Value), there: NotBelowZero(left)}
		if _, wanted, named := inventory.Named(requests, d.ID.Driver, name); named {
			if c.RequestPolicy != nil {
				s.words = inventory.QuantityText(wanted) + " asked, more by its policy"
				rounded = append(rounded, s)
			}
			continue
		}
		takes := c.Value
		s.words = "a request without an amount takes all"
		if p := c.RequestPolicy; p != nil && p.Default != nil {
			takes, s.words = *p.Default, "a request without an amount takes "+inventory.QuantityText(*p.Default)
		}
		if left.Cmp(inventory.AmountOf(takes)) < 0 {
			return s
		}
	}
	if len(rounded) == 1 {
		return rounded[0]
	}
	return nil
}

// mostAtOnce is what the request policy of a capacity lets a single request have.
func mostAtOnce(c *resourceapi.DeviceCapacity) (most resource.Quantity, limited bool) {
	switch p := c.RequestPolicy; {
	case p == nil:
	case len(p.ValidValues) > 0:
		return p.ValidValues[len(p.ValidValues)-1], true
	case p.ValidRange != nil && p.ValidRange.Max != nil:
		return *p.ValidRange.Max, true
	}
	return most, false
}

// capacityLeft is what shares have left of a capacity.
func (o *Options) capacityLeft(d *inventory.Device, name resourceapi.QualifiedName, has resource.Quantity) (inventory.Amount, bool) {
	pv := o.pool(d.ID.PoolID())
	if pv == nil || pv.Use.Taken[d.Index] == nil {
		return inventory.Amount{}, false
	}
	return inventory.AmountOf(has).Sub(pv.Use.Taken[d.Index].ConsumedOf(d.ID.Driver, name)), true
}
