// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/dump"
)

// decisive are the kinds that decide about devices. Without taint rules an answer
// can be wrong, too, but not about what exists.
var decisive = []string{"nodes", "deviceclasses", "resourceslices", "resourceclaimtemplates", "resourceclaims", "pods"}

// lost are the gaps of a dump that an answer may suffer from.
func lost(d *dump.Dump) []dump.Gap {
	var gaps []dump.Gap
	for _, gap := range d.Missing {
		if !gap.NotServed && !slices.Contains(gaps, gap) {
			gaps = append(gaps, gap)
		}
	}
	return gaps
}

// blind reports whether claims of other namespaces are not known, so that devices
// that they hold look free.
func blind(d *dump.Dump) bool {
	return slices.ContainsFunc(lost(d), func(gap dump.Gap) bool { return gap.Resource == "resourceclaims" })
}

// needs refuses input in which all objects of one of the kinds are missing: they
// would be taken for absent.
func (in *input) needs(resources ...string) error {
	return in.refuse(func(gap dump.Gap) bool {
		return gap.OnlyIn == "" && slices.Contains(resources, gap.Resource)
	})
}

// needsIn refuses input in which objects of the kind are missing that are asked
// for: those of the namespace, or of all.
func (in *input) needsIn(resource, namespace string, all bool) error {
	return in.refuse(func(gap dump.Gap) bool {
		return gap.Resource == resource && (all || gap.OnlyIn != namespace)
	})
}

func (in *input) refuse(bars func(dump.Gap) bool) error {
	var reasons []string
	for _, gap := range lost(in.dump) {
		if bars(gap) {
			reasons = append(reasons, gap.String())
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	text := strings.Join(reasons, ", ")
	if in.live {
		return &exitError{exitFailed, errors.New(text + ": the answer would be wrong; get permission to list them, or a dump from somebody who has it")}
	}
	return &exitError{exitBadInput, fmt.Errorf("the dump is partial, %s: the answer would be wrong; get a dump from somebody who may list them", text)}
}

// enough refuses input like needs, and notes what else is missing.
func (f *inputFlags) enough(in *input, resources ...string) error {
	if err := in.needs(resources...); err != nil {
		return err
	}
	f.tellGaps(in)
	return nil
}

// tellGaps notes what is missing.
func (f *inputFlags) tellGaps(in *input) {
	what := ""
	if !in.live {
		what = "the dump is partial, "
	}
	for _, gap := range lost(in.dump) {
		say(f.ErrOut, "note: %s%s; the answer may be wrong", what, gap)
	}
}
