// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"

	"kerf.dev/kerf/inventory"
)

// partners is how many constraints and claims away requests are compared.
const partners = 2

// parts says which part each of the requests plays among them. Requests that play
// the same part ask for the same and are tied to others in the same way, as far
// as partners can tell.
func (b *board) parts(requests []int) []fingerprint {
	part := make([]fingerprint, len(b.requests))
	keeping := slices.ContainsFunc(b.units, func(u unit) bool {
		return slices.ContainsFunc(u.dev.Taints, func(t inventory.Taint) bool { return t.Key == inventory.ClaimTaint })
	})
	for _, r := range requests {
		for _, a := range b.requests[r].asks {
			if keeping {
				part[r] = part[r].withText(string(a.uid))
			}
			part[r] = part[r].withText(fmt.Sprint(a.class.Name, a.selectors, a.count, a.all, a.admin, a.tolerations, a.capacity, a.derived))
		}
	}
	for range partners {
		part = b.refine(part, requests)
	}
	return part
}

// refine tells requests apart by the parts of those that they are tied to.
func (p *Problem) refine(part []fingerprint, requests []int) []fingerprint {
	refined := slices.Clone(part)
	for claim := range p.claims {
		var members fingerprint
		for _, r := range requests {
			if p.requests[r].claim == claim {
				members = members.plus(part[r])
			}
		}
		for _, r := range requests {
			if p.requests[r].claim == claim {
				refined[r] = refined[r].withAll(members)
			}
		}
	}
	ties := make([]fingerprint, len(part))
	for c, of := range p.constraints {
		tie := fingerprint{}.withText(string(of.attribute)).withBool(of.distinct)
		for _, r := range requests {
			if by := p.tiedBy(r, c); by > 0 {
				tie = tie.plus(part[r].with(by))
			}
		}
		for _, r := range requests {
			if by := p.tiedBy(r, c); by > 0 {
				ties[r] = ties[r].plus(tie.with(by))
			}
		}
	}
	for _, r := range requests {
		refined[r] = refined[r].withAll(ties[r])
	}
	return refined
}

// tiedBy has a bit for each alternative of the request that the constraint
// applies to.
func (p *Problem) tiedBy(r, c int) (by uint64) {
	for k, a := range p.requests[r].asks {
		if slices.Contains(a.limits, c) {
			by |= 1 << k
		}
	}
	return by
}
