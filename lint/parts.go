// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/inventory"
)

// published is a device and its pool.
type published struct {
	pool *inventory.Pool
	*inventory.Device
}

// card is a piece of hardware of a driver, as far as attributes say.
type card struct {
	driver string
	hardware
}

// wholeSuffixes are what drivers call the whole among the partitions of a card.
var wholeSuffixes = []string{"-whole", "-full", "-all"}

// checkParts reports a device that looks like the whole of others, and can be given out
// beside them. What looks so may be something else: it is a warning.
func (c *checker) checkParts() {
	reported := map[*inventory.Device]bool{}
	cards := map[card][]published{}
	var order []card
	for _, pool := range c.pools {
		if pool.Problem != nil {
			continue // it offers nothing
		}
		c.checkPartNames(pool, reported)
		for _, d := range pool.Devices {
			for _, id := range cardsOf(d) {
				if cards[id] == nil {
					order = append(order, id)
				}
				cards[id] = append(cards[id], published{pool, d})
			}
		}
	}
	for _, id := range order {
		c.checkCard(cards[id], reported)
	}
}

// cardsOf returns what hardware a device is, or says that it is a part of.
func cardsOf(d *inventory.Device) []card {
	var found []card
	for name, a := range sorted(d.Spec.Attributes) {
		identity, _ := identityOf(name)
		if identity == "" {
			identity = parentIdentity(name)
		}
		if identity == "" || a.StringValue == nil || *a.StringValue == "" {
			continue
		}
		id := card{d.ID.Driver, hardware{d.Reach.NodeName, identity, strings.ToLower(*a.StringValue)}}
		if !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	return found
}

// parentIdentity is the identity that an attribute such as parentUUID has of another
// device, empty where it has none.
func parentIdentity(name resourceapi.QualifiedName) string {
	const parent = "parent"
	_, id, found := strings.Cut(string(name), "/")
	if !found {
		id = string(name)
	}
	if len(id) <= len(parent) || !strings.EqualFold(id[:len(parent)], parent) {
		return ""
	}
	identity, _ := identityOf(resourceapi.QualifiedName(id[len(parent):]))
	return identity
}

// checkCard compares what is of one card with the largest of it.
func (c *checker) checkCard(devices []published, reported map[*inventory.Device]bool) {
	whole := devices[0]
	for _, p := range devices[1:] {
		if larger(p.Device, whole.Device) {
			whole = p
		}
	}
	c.checkWhole(whole, slices.DeleteFunc(slices.Clone(devices), func(p published) bool { return !larger(whole.Device, p.Device) }), reported)
}

// checkPartNames finds parts by their names: gpu-0-half-1 is one of gpu-0, or of
// gpu-0-whole.
func (c *checker) checkPartNames(pool *inventory.Pool, reported map[*inventory.Device]bool) {
	wholes := map[string]*inventory.Device{}
	for _, d := range pool.Devices {
		wholes[d.ID.Device] = d
		for _, suffix := range wholeSuffixes {
			if card, found := strings.CutSuffix(d.ID.Device, suffix); found {
				wholes[card] = d
			}
		}
	}
	parts := map[*inventory.Device][]published{}
	for _, d := range pool.Devices {
		name := d.ID.Device
		if len(name) > validation.DNS1123LabelMaxLength {
			continue // is none, and may have any number of hyphens
		}
		for i := strings.LastIndexByte(name, '-'); i > 0; i = strings.LastIndexByte(name[:i], '-') {
			if whole := wholes[name[:i]]; whole != nil && whole != d {
				parts[whole] = append(parts[whole], published{pool, d})
			}
		}
	}
	for _, d := range pool.Devices {
		named := parts[d]
		several := len(named) > 1
		c.checkWhole(published{pool, d}, slices.DeleteFunc(named, func(p published) bool {
			// Without a capacity to compare, several parts or counters of theirs tell.
			return !larger(d, p.Device) && (measured(d, p.Device) || !several && len(p.Draws) == 0)
		}), reported)
	}
}

// checkWhole reports the parts that can be given out beside the whole.
func (c *checker) checkWhole(whole published, parts []published, reported map[*inventory.Device]bool) {
	parts = slices.DeleteFunc(parts, func(p published) bool { return whole.excludes(p) })
	if len(parts) == 0 || reported[whole.Device] {
		return
	}
	reported[whole.Device] = true
	others := " is a part"
	if n := len(parts) - 1; n > 0 {
		others = fmt.Sprintf(" and %d more are parts", n)
	}
	c.slice(Warning, "whole-beside-parts", whole.Slice.Name, devicePath(whole.Slice, whole.ID.Device),
		fmt.Sprintf("device %s looks like the whole of which %s%s, and can be given out beside them: no counter keeps them apart", whole.ID, parts[0].ID.Device, others),
		"publish what they share as counters of a set in spec.sharedCounters, of which the whole consumes all and each part its own")
}

// larger reports whether one device has more of a capacity than the other, and of none
// less.
func larger(a, b *inventory.Device) bool {
	more := false
	for name, have := range a.Spec.Capacity {
		other, found := b.Spec.Capacity[name]
		if !found {
			continue
		}
		switch inventory.AmountOf(have.Value).Cmp(inventory.AmountOf(other.Value)) {
		case -1:
			return false
		case 1:
			more = true
		}
	}
	return more
}

// measured reports whether two devices have a capacity of the same name.
func measured(a, b *inventory.Device) bool {
	for name := range a.Spec.Capacity {
		if _, found := b.Spec.Capacity[name]; found {
			return true
		}
	}
	return false
}

// excludes reports whether counters or compatibility groups keep two devices from
// being given out together.
func (p published) excludes(other published) bool {
	if p.pool != other.pool {
		return false // counters are those of a pool
	}
	rest := other.Draws // both are in the order of the counters
	for _, a := range p.Draws {
		for len(rest) > 0 && rest[0].Counter < a.Counter {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].Counter == a.Counter && a.Amount.Add(rest[0].Amount).Cmp(p.pool.Counters[a.Counter].Value) > 0 {
			return true
		}
	}
	for _, a := range p.Groups {
		for _, b := range other.Groups {
			if a.Set == b.Set && !compatible(a.Groups, b.Groups) {
				return true
			}
		}
	}
	return false
}

// compatible reports whether devices with these groups share a counter set.
func compatible(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return slices.ContainsFunc(a, func(group string) bool { return slices.Contains(b, group) })
}
