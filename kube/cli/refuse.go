// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/lint"
	"kerf.dev/kerf/sandbox/manifest"
	"kerf.dev/kerf/selector"
)

// refuseInvalid fails where manifests have objects that an API server refuses, and
// where a claim, be it of a dump, names a request that it does not have: to place
// it would be to leave out a constraint. Of objects in namespaces that are not visible
// nothing is said.
func refuseInvalid(in *input, visible func(namespace string) bool) error {
	var mistakes manifest.Errors
	for _, finding := range lint.Invalid(in.dump, selector.New()) {
		at := in.position(finding.Object())
		if finding.Namespace != "" && !visible(finding.Namespace) {
			continue
		}
		if at.in == nil || at.in.GetKind() == dump.Kind && finding.Rule != "claim-unknown-request" {
			continue
		}
		mistake := at.in.Errorf(at.field(finding.Field), "%s; %s", finding.Problem, finding.Fix)
		if !at.template {
			mistake.Object, mistake.Field = finding.Object(), finding.Field
		}
		same := func(known *manifest.Error) bool { return *known == *mistake }
		if at.template && slices.ContainsFunc(mistakes, same) {
			continue // it was found in another pod from the template
		}
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) == 0 {
		return nil
	}
	mistakes.Sort()
	return &exitError{exitBadInput, mistakes}
}
