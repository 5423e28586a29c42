// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/selector"
)

// putCompounds puts what CompoundPolicies make of the devices of each node in place of these.
// It reports whether something was left out.
func putCompounds(d *dump.Dump) (leftOut bool) {
	byNode, matcher := compound.ByNode(d.CompoundPolicies, d.ResourceSlices), selector.New()
	all := slices.DeleteFunc(slices.Clone(d.ResourceSlices), func(s *resourceapi.ResourceSlice) bool {
		return s.Spec.NodeName != nil && byNode[*s.Spec.NodeName] != nil
	})
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		r := compound.Decide(compound.Input{Node: node, Policies: d.CompoundPolicies, Slices: byNode[node], Matcher: matcher})
		all = append(all, r.Slices...)
		leftOut = leftOut || slices.ContainsFunc(r.Report, func(n compound.Note) bool { return !n.Reason.OfNode() })
	}
	d.ResourceSlices = all
	return leftOut
}
