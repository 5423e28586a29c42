// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/api/crdtest"
	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/selector"
)

const crd = "compound.kerf.dev_compoundpolicies.yaml"

func TestGenerated(t *testing.T) { crdtest.Generated(t, crd) }

const good = `
apiVersion: compound.kerf.dev/v1alpha1
kind: CompoundPolicy
metadata: {name: triplets}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com, alone: true}
  - {name: nic, driver: nic.example.com, selector: device.driver == "nic.example.com", keep: [uuid]}
  molecules:
  - {name: pair, share: [resource.kubernetes.io/pcieRoot], members: [{atom: gpu}, {atom: nic, count: 1}]}
  - {name: host, members: [{atom: gpu, all: true}]}
  - {name: wired, listed: [{devices: [{atom: gpu, device: gpu-0}, {atom: nic, pool: a, device: nic-0}]}]}
`

// TestCompoundPolicy has the API server and package compound judge policies. The package
// refuses what the server refuses, since it reads files, too; and what no schema can tell.
func TestCompoundPolicy(t *testing.T) {
	r := crdtest.Load(t, crd)
	entries := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, "")
	}
	for name, tc := range map[string]struct {
		from, to string // replaced in good
		server   string // part of the error
		field    string // of the fault
	}{
		"good":                    {},
		"upper case":              {from: "name: triplets", to: "name: " + strings.Repeat("t", 64), server: "at most 63", field: "metadata.name"},
		"bad driver":              {from: "driver: gpu.example.com", to: "driver: GPU", server: "driver", field: "spec.atoms[0].driver"},
		"bad own driver":          {from: "spec:", to: "spec:\n  driver: a..b", server: "driver", field: "spec.driver"},
		"no atoms":                {from: "atoms:", to: "atoms: []\n  other:", server: "spec.atoms", field: "spec.atoms"},
		"too many atoms":          {from: "  molecules:", to: entries(17, "  - {name: a%d, driver: a}\n") + "  molecules:", server: "spec.atoms", field: "spec.atoms"},
		"too many molecules":      {from: "  - {name: host", to: entries(30, "  - {name: m%d, members: [{atom: gpu, count: 2}]}\n") + "  - {name: host", server: "spec.molecules", field: "spec.molecules"},
		"bad name of an atom":     {from: "{name: gpu,", to: "{name: GPU,", server: "name", field: "spec.atoms[0].name"},
		"atom named twice":        {from: "{name: nic,", to: "{name: gpu,", field: "spec.atoms[1].name", server: ""},
		"molecule named as atom":  {from: "{name: host,", to: "{name: gpu,", server: "must not have the name of an atom", field: "spec.molecules[1].name"},
		"long list to keep":       {from: "keep: [uuid]", to: "keep: [" + strings.TrimSuffix(entries(33, "a%d, "), ", ") + "]", server: "keep", field: "spec.atoms[1].keep"},
		"selector of no sense":    {from: `device.driver == "nic.example.com"`, to: "device.", field: "spec.atoms[1].selector"},
		"members and list":        {from: "members: [{atom: gpu, all: true}]", to: "members: [{atom: gpu, all: true}], listed: [{devices: [{atom: gpu, device: a}, {atom: gpu, device: b}]}]", server: "exactly one of members and listed", field: "spec.molecules[1]"},
		"neither":                 {from: ", members: [{atom: gpu, all: true}]", to: "", server: "exactly one of members and listed", field: "spec.molecules[1]"},
		"list that shares":        {from: "{name: wired, ", to: "{name: wired, share: [a], ", server: "share is for members", field: "spec.molecules[2].listed"},
		"count and all":           {from: "{atom: gpu, all: true}", to: "{atom: gpu, all: true, count: 2}", server: "exclude each other", field: "spec.molecules[1].members[0].count"},
		"large count":             {from: "count: 1", to: "count: 33", server: "count", field: "spec.molecules[0].members[1].count"},
		"negative count":          {from: "count: 1", to: "count: -1", server: "count", field: "spec.molecules[0].members[1].count"},
		"one atom":                {from: "{atom: gpu, all: true}", to: "{atom: gpu}", field: "spec.molecules[1].members"},
		"member twice":            {from: "{atom: nic, count: 1}", to: "{atom: gpu, count: 1}", field: "spec.molecules[0].members[1].atom"},
		"unknown atom":            {from: "{atom: nic, pool", to: "{atom: fpga, pool", field: "spec.molecules[2].listed[0].devices[1].atom"},
		"list of one":             {from: "{atom: gpu, device: gpu-0}, ", to: "", server: "devices", field: "spec.molecules[2].listed[0].devices"},
		"no device":               {from: "device: gpu-0", to: `device: ""`, server: "device", field: "spec.molecules[2].listed[0].devices[0].device"},
		"shares too much":         {from: "share: [", to: "share: [a, b, c, d, ", server: "share", field: "spec.molecules[0].share"},
		"own driver":              {from: "driver: gpu.example.com", to: "driver: compound.kerf.dev", field: "spec.atoms[0].driver"},
		"empty name to share":     {from: "share: [", to: `share: ["", `, server: "share"},                               // no device has it,
		"name of attributes that": {from: "keep: [uuid]", to: "keep: [" + strings.Repeat("u", 97) + "]", server: "keep"}, // no device has it,
	} {
		t.Run(name, func(t *testing.T) {
			obj := crdtest.Decode(t, strings.Replace(good, tc.from, tc.to, 1))
			p := &v1alpha1.CompoundPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, p); err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, fault := range compound.Check(p, selector.New().Compile) {
				if fields = append(fields, fault.Field); fault.Problem == "" || fault.Fix == "" {
					t.Errorf("fault %+v lacks words", fault)
				}
			}
			if got := strings.Join(fields, " "); got != tc.field && !strings.HasPrefix(got, tc.field+" ") || tc.field == "" && got != "" {
				t.Errorf("faults in %q, want %q", got, tc.field)
			}
			if tc.server == "" && tc.field != "" {
				return // no schema can tell, or not in these words
			}
			crdtest.Check(t, r.Admit(t, obj, nil), tc.server)
		})
	}
}

func TestRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"CompoundPolicy", "CompoundPolicyList"} {
		if !scheme.Recognizes(v1alpha1.SchemeGroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
