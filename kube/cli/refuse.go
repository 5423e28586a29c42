// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/lint"
	"kerf.dev/kerf/sandbox/manifest"
	"kerf.dev/kerf/selector"
)

// refuseInvalid fails where manifests have objects that an API server refuses, and
// where a claim, be it of a dump, names a request that it does not have: to place
// it would be to leave out a constraint.
func refuseInvalid(in *input) error {
	var mistakes manifest.Errors
	for _, finding := range lint.Invalid(in.dump, selector.New()) {
		at := in.files.sources[finding.Object()]
		if at.in == nil || at.in.GetKind() == dump.Kind && finding.Rule != "claim-unknown-request" {
			continue
		}
		mistake := at.in.Errorf(at.path+finding.Field, "%s; %s", finding.Problem, finding.Fix)
		mistake.Object, mistake.Field = finding.Object(), finding.Field
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) == 0 {
		return nil
	}
	mistakes.Sort()
	return &exitError{exitBadInput, mistakes}
}
