// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Problem is a set of claims, ready to be solved on any node.
type Problem struct {
	claims  []*resourceapi.ResourceClaim
	matcher Matcher
	options Options
}

// Compile checks the claims and prepares them. The claims must not be allocated;
// they are not changed. The error is an *InputError.
func Compile(claims []*resourceapi.ResourceClaim, classes Classes, matcher Matcher, options Options) (*Problem, error) {
	return nil, nil
}

// Allocate solves the problem on a node. The error is an *InputError, or the
// run-time error of a selector where the options say so.
func (p *Problem) Allocate(view *inventory.View) (Outcome, error) {
	return Outcome{}, nil
}
