// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/lint"
)

// refuseMisdirected fails where a claim of a dump, be it of an API server that took it,
// names a request that it does not have: to place it would be to leave out a constraint.
// Of objects in namespaces that are not visible nothing is said.
func refuseMisdirected(in *input, visible func(namespace string) bool) error {
	var mistakes manifest.Errors
	for _, finding := range lint.Misdirected(&in.dump.Objects) {
		at := in.position(finding.Object())
		if at.in == nil || !visible(finding.Namespace) {
			continue
		}
		mistake := at.in.Errorf(at.field(finding.Field), "%s; %s", finding.Problem, finding.Fix)
		mistake.Object, mistake.Field = finding.Object(), finding.Field
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) == 0 {
		return nil
	}
	mistakes.Sort()
	return &exitError{exitBadInput, mistakes}
}
