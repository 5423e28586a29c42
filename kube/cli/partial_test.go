// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kerf.dev/kerf/dump"
)

// TestEnough asks for answers from a cluster of which not everything may be
// listed.
func TestEnough(t *testing.T) {
	nodes := dump.Gap{Resource: "nodes"}
	rules := dump.Gap{Resource: "devicetaintrules"}
	claims := dump.Gap{Resource: "resourceclaims", OnlyIn: "team-a"}
	for _, test := range []struct {
		name         string
		missing      []dump.Gap
		failed, note string
	}{
		{name: "everything"},
		{name: "no nodes", missing: []dump.Gap{nodes, rules}, failed: "nodes may not be listed: the answer would be wrong; get permission to list them"},
		{name: "no rules", missing: []dump.Gap{rules}, note: "note: devicetaintrules may not be listed; the answer may be wrong\n"},
		{name: "one namespace", missing: []dump.Gap{claims, claims}, note: "note: resourceclaims may be listed in namespace team-a only; the answer may be wrong\n"},
		{name: "no such kind", missing: []dump.Gap{{Resource: "devicetaintrules", NotServed: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &input{dump: dump.New(), live: true}
			in.dump.Missing = test.missing
			var stderr bytes.Buffer
			f := &inputFlags{app: &app{IOStreams: genericiooptions.IOStreams{ErrOut: &stderr}}}
			err := f.enough(in, decisive...)
			if got := stderr.String(); got != test.note {
				t.Errorf("noted %q, want %q", got, test.note)
			}
			var exit *exitError
			switch {
			case test.failed == "" && err != nil:
				t.Error(err)
			case test.failed == "":
			case !errors.As(err, &exit) || exit.code != exitFailed || !strings.HasPrefix(err.Error(), test.failed):
				t.Errorf("error %v, want %q with exit code %d", err, test.failed, exitFailed)
			}
		})
	}
}
