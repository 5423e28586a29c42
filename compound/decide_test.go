// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/inventory"
)

func TestTriplets(t *testing.T) {
	r := decide(t, triplets, server(4)...)
	want := []string{
		"gpu: gpu0", "gpu: gpu1", "gpu: gpu2", "gpu: gpu3",
		"pair: gpu0 nic0", "pair: gpu1 nic0", "pair: gpu2 nic1", "pair: gpu3 nic1",
		"triplet: gpu0 gpu1 nic0", "triplet: gpu2 gpu3 nic1",
	}
	if diff := cmp.Diff(want, names(r)); diff != "" {
		t.Errorf("molecules (-want +got):\n%s", diff)
	}
	if len(r.Report) > 0 {
		t.Errorf("report: %+v", r.Report)
	}
	for _, s := range r.Slices {
		if s.Spec.Driver != "compound.kerf.dev" || s.Spec.Pool.Name != "node-1/triplets" || *s.Spec.NodeName != node {
			t.Errorf("slice %s of %s/%s for %s", s.Name, s.Spec.Driver, s.Spec.Pool.Name, *s.Spec.NodeName)
		}
	}
}

// TestLeft keeps what is no atom in its driver's pool.
func TestLeft(t *testing.T) {
	const some = `
metadata: {name: some}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com, selector: 'device.attributes["gpu.example.com"].uuid != "uuid-gpu3"'}
  - {name: nic, driver: nic.example.com, selector: 'device.attributes["nic.example.com"].uuid == "uuid-nic0"'}
  molecules:
  - {name: pair, members: [{atom: gpu}, {atom: nic}]}
`
	other := slice("fpga.example.com", at("fpga0", "pci0"))
	r := decide(t, some, append(server(4), other)...)
	left := map[string][]string{}
	for _, s := range r.Slices {
		for _, d := range s.Spec.Devices {
			left[s.Spec.Driver] = append(left[s.Spec.Driver], d.Name)
		}
	}
	delete(left, "compound.kerf.dev")
	want := map[string][]string{gpus: {"gpu3"}, nics: {"nic1"}, "fpga.example.com": {"fpga0"}}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left to drivers (-want +got):\n%s", diff)
	}
	if got := names(r); len(got) != 3 {
		t.Errorf("molecules %v, want each of three GPUs with nic0", got)
	}
}

func TestCombinations(t *testing.T) {
	const head = `
metadata: {name: a}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com}
  - {name: nic, driver: nic.example.com}
  molecules:
`
	list := device("nic9", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{pcieRoot: {StringValues: []string{"pci0", "pci1"}}})
	for name, tc := range map[string]struct {
		molecules string
		more      []resourceapi.Device // NICs
		want      []string
		notes     []string
	}{
		"all of a root": {
			molecules: "  - {name: m, share: [resource.kubernetes.io/pcieRoot], members: [{atom: gpu, all: true}, {atom: nic, all: true}]}",
			want:      []string{"m: gpu0 gpu1 nic0", "m: gpu2 gpu3 nic1"},
		},
		"all of the host": {
			molecules: "  - {name: m, members: [{atom: gpu, all: true}, {atom: nic, all: true}]}",
			want:      []string{"m: gpu0 gpu1 gpu2 gpu3 nic0 nic1"},
		},
		"one of each": {
			molecules: "  - {name: m, members: [{atom: gpu, count: 3}, {atom: nic}]}",
			want: []string{"m: gpu0 gpu1 gpu2 nic0", "m: gpu0 gpu1 gpu2 nic1", "m: gpu0 gpu1 gpu3 nic0", "m: gpu0 gpu1 gpu3 nic1",
				"m: gpu0 gpu2 gpu3 nic0", "m: gpu0 gpu2 gpu3 nic1", "m: gpu1 gpu2 gpu3 nic0", "m: gpu1 gpu2 gpu3 nic1"},
		},
		"a NIC of two roots": {
			molecules: "  - {name: m, share: [resource.kubernetes.io/pcieRoot], members: [{atom: gpu, count: 2}, {atom: nic}]}",
			more:      []resourceapi.Device{list},
			want:      []string{"m: gpu0 gpu1 nic0", "m: gpu0 gpu1 nic9", "m: gpu2 gpu3 nic1", "m: gpu2 gpu3 nic9"},
		},
		"a pair of two values once": {
			molecules: "  - {name: m, share: [resource.kubernetes.io/pcieRoot], members: [{atom: nic, count: 2}]}",
			more:      []resourceapi.Device{list, device("nic8", list.Attributes)},
			want:      []string{"m: nic0 nic8", "m: nic0 nic9", "m: nic1 nic8", "m: nic1 nic9", "m: nic8 nic9"},
		},
		"listed": {
			molecules: "  - {name: m, listed: [{devices: [{atom: nic, device: nic0}, {atom: gpu, device: gpu3}]}, {devices: [{atom: gpu, device: gpu0}, {atom: gpu, device: gpu7}]}]}",
			want:      []string{"m: gpu3 nic0"},
			notes:     []string{"NotThere spec.molecules[0].listed[1] 0"},
		},
		"listed twice": {
			molecules: "  - {name: m, listed: [{devices: [{atom: gpu, device: gpu3}, {atom: gpu, device: gpu3}]}]}",
			notes:     []string{"YieldsNothing spec 0", "YieldsNothing spec.molecules[0] 0", "AtomTwice spec.molecules[0].listed[0] 1"},
		},
		"the first rule has the molecule": {
			molecules: "  - {name: m, members: [{atom: nic, count: 2}]}\n  - {name: n, members: [{atom: nic, all: true}]}",
			want:      []string{"m: nic0 nic1"},
			notes:     []string{"YieldsNothing spec.molecules[1] 0"},
		},
		"no such attribute": {
			molecules: "  - {name: m, share: [example.com/numa], members: [{atom: gpu}, {atom: nic}]}",
			notes: []string{"YieldsNothing spec 0", "YieldsNothing spec.molecules[0] 0",
				"UnknownAttribute spec.molecules[0].share[0] 0", "UnknownAttribute spec.molecules[0].share[0] 0"},
		},
		"each driver's own attribute": {
			molecules: "  - {name: m, share: [uuid], members: [{atom: gpu}, {atom: nic}]}",
			more:      []resourceapi.Device{device("nic5", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"nic.example.com/uuid": text("uuid-gpu2")})},
			want:      []string{"m: gpu2 nic5"},
		},
		"too few": {
			molecules: "  - {name: m, members: [{atom: gpu, count: 2}, {atom: nic, count: 3}]}",
			notes:     []string{"YieldsNothing spec 0", "YieldsNothing spec.molecules[0] 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := server(4)
			in[1].Spec.Devices = append(in[1].Spec.Devices, tc.more...)
			r := decide(t, head+tc.molecules, in...)
			if diff := cmp.Diff(tc.want, names(r)); diff != "" {
				t.Errorf("molecules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, notes(r)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExplosion has combinations that nobody could try.
func TestExplosion(t *testing.T) {
	var devices []resourceapi.Device
	for i := range 128 {
		devices = append(devices, at(fmt.Sprintf("gpu%d", i), "pci0"))
	}
	for molecules, want := range map[string]string{
		"[{atom: gpu, count: 32}]":                           "TooMany",
		"[{atom: gpu, count: 32}, {atom: nic, count: 1}]":    "YieldsNothing",
		"[{atom: gpu, all: true}]":                           "TooMany",
		"[{atom: gpu, count: 2}, {atom: other, count: 2}]":   "TooMany",
		"[{atom: other, count: 32}, {atom: nic, all: true}]": "YieldsNothing",
	} {
		r := decide(t, `
metadata: {name: a}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com, alone: true}
  - {name: other, driver: other.example.com}
  - {name: nic, driver: nic.example.com}
  molecules:
  - {name: m, members: `+molecules+`}`, slice(gpus, devices...), slice("other.example.com", devices...))
		if got := notes(r); !slices.Contains(got, want+" spec.molecules[0] 0") {
			t.Errorf("%s: report %v, want %s", molecules, got, want)
		}
		if got := names(r); len(got) != len(devices) {
			t.Errorf("%s: %d devices, want the %d atoms alone", molecules, len(got), len(devices))
		}
	}
}

// TestGroupsExplode has lists whose values would make groups without end.
func TestGroupsExplode(t *testing.T) {
	lists := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	var share []string
	for i := range 4 {
		var values []int64
		for n := range int64(48) {
			values = append(values, n)
		}
		name := fmt.Sprintf("example.com/list%d", i)
		lists[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValues: values}
		share = append(share, name)
	}
	var devices []resourceapi.Device
	for i := range 64 {
		own := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		for name, a := range lists {
			own[name] = resourceapi.DeviceAttribute{IntValues: slices.DeleteFunc(slices.Clone(a.IntValues), func(n int64) bool { return n == int64(i%48) })}
		}
		devices = append(devices, device(fmt.Sprintf("gpu%d", i), own))
	}
	r := decide(t, `
metadata: {name: a}
spec:
  atoms: [{name: gpu, driver: gpu.example.com}]
  molecules:
  - {name: m, share: [`+strings.Join(share, ", ")+`], members: [{atom: gpu, count: 2}]}`, slice(gpus, devices...))
	if !slices.ContainsFunc(r.Report, func(n compound.Note) bool { return n.Reason == compound.TooMany }) {
		t.Errorf("report %v, want TooMany", notes(r))
	}
}

// TestClosed publishes nothing of a driver of which the atoms are not known.
func TestClosed(t *testing.T) {
	incomplete := server(4)
	incomplete[1].Spec.Pool.ResourceSliceCount = 2
	for name, tc := range map[string]struct {
		policy string
		slices []*resourceapi.ResourceSlice
		note   string
	}{
		"a mistake":        {strings.Replace(triplets, "alone: true", "alone: true, selector: device.", 1), server(4), "InvalidPolicy spec.atoms[0].selector 0"},
		"its own driver":   {strings.Replace(triplets, "spec:", "spec:\n  driver: fpga.example.com", 1), append(server(4), slice("fpga.example.com", at("a", "b"))), "InvalidPolicy spec.driver 0"},
		"a broken pool":    {triplets, incomplete, "BrokenPool nic.example.com/node-1 0"},
		"too dear":         {strings.Replace(triplets, "alone: true", `alone: true, selector: '"aaaaaaaaaaaaaaaaaaaa".matches("(a*)*b") || `+strings.Repeat("[1,2,3,4,5,6,7,8,9].all(a, ", 5)+"true"+strings.Repeat(")", 5)+`'`, 1), server(60), "TooDear spec.atoms 0"},
		"an unknown atom":  {strings.Replace(triplets, "{atom: gpu}", "{atom: cpu}", 1), server(4), "InvalidPolicy spec.molecules[0].members[0].atom 0"},
		"nothing is named": {strings.Replace(triplets, "name: triplets", "name: Triplets", 1), server(4), "InvalidPolicy metadata.name 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := decide(t, tc.policy, tc.slices...)
			if got := notes(r); !slices.Contains(got, tc.note) {
				t.Errorf("report %v, want %s", got, tc.note)
			}
			for _, s := range r.Slices {
				if s.Spec.Driver == gpus || s.Spec.Driver == nics {
					t.Errorf("slice %s of %s is published with %d devices", s.Name, s.Spec.Driver, len(s.Spec.Devices))
				}
			}
		})
	}
}

// TestSelectorFails has a selector with another error on each device.
func TestSelectorFails(t *testing.T) {
	failing := strings.Replace(triplets, "alone: true", `alone: true, selector: 'device.attributes["gpu.example.com"].uuid == "uuid-gpu3" || int(device.attributes["gpu.example.com"].uuid) == 1'`, 1)
	r := decide(t, failing, server(4)...)
	if diff := cmp.Diff([]string{"SelectorFails spec.atoms[0] 3", "YieldsNothing spec.molecules[1] 0"}, notes(r)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"gpu: gpu3", "pair: gpu3 nic1"}, names(r)); diff != "" {
		t.Errorf("molecules (-want +got):\n%s", diff)
	}
}

// TestOtherNodes has devices that are not of this node alone: they stay with their driver.
func TestOtherNodes(t *testing.T) {
	in := server(4)
	in[1].Spec.NodeName, in[1].Spec.AllNodes = nil, new(true)
	elsewhere := slice("gpu.example.com", at("gpu9", "pci0"))
	elsewhere.Name, elsewhere.Spec.NodeName, elsewhere.Spec.Pool.Name = "elsewhere", new("node-2"), "node-2"
	r := decide(t, triplets, append(in, elsewhere)...)
	if got := notes(r); !slices.Contains(got, "NotOfNode spec.atoms[1] 2") {
		t.Errorf("report %v, want two NICs of all nodes", got)
	}
	for _, s := range r.Slices {
		if s.Spec.Driver == gpus || s.Spec.Driver == nics && len(s.Spec.Devices) != 2 {
			t.Errorf("slice %s of %s has %d devices", s.Name, s.Spec.Driver, len(s.Spec.Devices))
		}
	}
}

func TestTwoPolicies(t *testing.T) {
	second := strings.Replace(triplets, "name: triplets", "name: zealots", 1)
	r := decide(t, second+"\n---\n"+triplets, server(4)...)
	want := []string{"Overlap spec.atoms[0] 4", "Overlap spec.atoms[1] 2", "YieldsNothing spec 0", "YieldsNothing spec.molecules[0] 0", "YieldsNothing spec.molecules[1] 0"}
	got := notes(r)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for _, m := range r.Molecules {
		if m.Policy != "triplets" {
			t.Errorf("%s is of policy %s", m.Device, m.Policy)
		}
	}
}

func TestAtomTwice(t *testing.T) {
	twice := strings.Replace(triplets, "  molecules:", "  - {name: same, driver: nic.example.com}\n  molecules:", 1)
	r := decide(t, twice, server(4)...)
	if diff := cmp.Diff([]string{"AtomTwice spec.atoms[2] 2"}, notes(r)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestNames has names that depend on atoms alone.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	in := server(4)
	in[0].Spec.Devices = append(in[0].Spec.Devices, at(long, "pci0"))
	more := decide(t, triplets, in...)
	byAtoms := map[string]string{}
	for _, m := range more.Molecules {
		byAtoms[fmt.Sprint(m.Atoms)] = m.Device
		if len(validation.IsDNS1123Label(m.Device)) > 0 {
			t.Errorf("%s is no name of a device", m.Device)
		}
	}
	for _, m := range decide(t, triplets, server(2)...).Molecules {
		if name := byAtoms[fmt.Sprint(m.Atoms)]; name != m.Device {
			t.Errorf("%s is called %s when there is more", m.Device, name)
		}
	}
	// Two drivers with devices of the same names, and hyphens in different places.
	const both = `
metadata: {name: a}
spec:
  atoms: [{name: a, driver: a.example.com, alone: true}, {name: b, driver: b.example.com, alone: true}]
  molecules: [{name: m, members: [{atom: a}, {atom: b}]}, {name: n, members: [{atom: b, count: 2}]}]
`
	devices := []resourceapi.Device{at("x", "r"), at("x-y", "r"), at("y-z", "r"), at("z", "r")}
	r := decide(t, both, slice("a.example.com", devices...), slice("b.example.com", devices...))
	seen := map[string]bool{}
	for _, m := range r.Molecules {
		seen[m.Device] = true
	}
	if want := 4 + 4 + 16 + 6; len(seen) != want || len(r.Report) > 0 {
		t.Errorf("%d names, want %d; report %v", len(seen), want, r.Report)
	}
	const stable = "gpu0-nic0-"
	if name := published(t, more, "gpu0-nic0").Name; name != stable+"kegx6y52" {
		t.Errorf("gpu0 with nic0 is called %s: claims that hold it would lose it", name)
	}
}

// TestGenerations changes the generation with the content alone.
func TestGenerations(t *testing.T) {
	in := compound.Input{Node: node, Policies: nil, Slices: server(4), Matcher: matcher}
	in.Policies = append(in.Policies, policy(t, triplets))
	generations := func(r *compound.Result) map[string]int64 {
		of := map[string]int64{}
		for _, s := range r.Slices {
			of[s.Spec.Driver] = s.Spec.Pool.Generation
		}
		return of
	}
	in.Slices = append(in.Slices, slice("fpga.example.com", at("fpga0", "pci0")))
	first := compound.Decide(in)
	in.Previous = first.Slices
	in.Slices[0].Spec.Pool.Generation = 9 // the driver says the same again
	if diff := cmp.Diff(generations(first), generations(compound.Decide(in))); diff != "" {
		t.Errorf("generations of the same content (-want +got):\n%s", diff)
	}
	in.Slices[0].Spec.Devices = in.Slices[0].Spec.Devices[1:]
	want := map[string]int64{"compound.kerf.dev": 2, "fpga.example.com": 1}
	if diff := cmp.Diff(want, generations(compound.Decide(in))); diff != "" {
		t.Errorf("generations without a GPU (-want +got):\n%s", diff)
	}
	in.Policies = nil
	want = map[string]int64{gpus: 9, nics: 1, "fpga.example.com": 1}
	if diff := cmp.Diff(want, generations(compound.Decide(in))); diff != "" {
		t.Errorf("generations without a policy (-want +got):\n%s", diff)
	}
}

// TestOrder shuffles all input.
func TestOrder(t *testing.T) {
	in := compound.Input{Node: node, Slices: append(server(8), slice("fpga.example.com", at("fpga0", "pci0"))), Matcher: matcher}
	in.Policies = append(in.Policies, policy(t, triplets), policy(t, strings.Replace(triplets, "name: triplets", "name: zealots", 1)))
	want := compound.Decide(in)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(in.Slices), func(i, j int) { in.Slices[i], in.Slices[j] = in.Slices[j], in.Slices[i] })
		random.Shuffle(len(in.Policies), func(i, j int) { in.Policies[i], in.Policies[j] = in.Policies[j], in.Policies[i] })
		for _, s := range in.Slices {
			of := s.Spec.Devices
			random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		}
		got := compound.Decide(in)
		if diff := cmp.Diff(want.Slices[1:], got.Slices[1:]); diff != "" {
			t.Fatalf("slices of molecules (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.Report, got.Report); diff != "" {
			t.Fatalf("report (-want +got):\n%s", diff)
		}
	}
}

// TestHeld keeps the atoms of an allocated molecule away from all others when the policy no
// longer has it.
func TestHeld(t *testing.T) {
	in := compound.Input{Node: node, Slices: server(4), Matcher: matcher}
	in.Policies = append(in.Policies, policy(t, triplets))
	for _, m := range compound.Decide(in).Molecules {
		if m.Rule == "pair" && m.Atoms[0].Device == "gpu0" {
			in.Held = []compound.Molecule{m}
		}
	}
	if r := compound.Decide(in); len(r.Molecules) != 10 || len(r.Report) > 0 {
		t.Errorf("%d molecules while one is held, want all 10; report %v", len(r.Molecules), r.Report)
	}
	in.Policies = nil
	left := compound.Decide(in)
	if atoms := left.AtomsOf(in.Held[0].DeviceID); len(atoms) != 2 || atoms[nics][0].Device != "nic0" {
		t.Errorf("atoms of what is held: %v", atoms)
	}
	for _, s := range left.Slices {
		for _, d := range s.Spec.Devices {
			if d.Name == "gpu0" || d.Name == "nic0" {
				t.Errorf("%s is published, and held by %s", d.Name, in.Held[0].Device)
			}
		}
	}
	if diff := cmp.Diff([]string{"InUse gpu.example.com/node-1 1", "InUse nic.example.com/node-1 1"}, notes(left)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	// All of a root is another molecule when one of its atoms is gone.
	in.Policies = append(in.Policies, policy(t, `
metadata: {name: triplets}
spec:
  atoms: [{name: gpu, driver: gpu.example.com}, {name: nic, driver: nic.example.com}]
  molecules: [{name: m, share: [resource.kubernetes.io/pcieRoot], members: [{atom: gpu, all: true}, {atom: nic}]}]`))
	if diff := cmp.Diff([]string{"m: gpu2 gpu3 nic1"}, names(compound.Decide(in))); diff != "" {
		t.Errorf("molecules of another policy (-want +got):\n%s", diff)
	}
}

func TestAtomsOf(t *testing.T) {
	in := server(4)
	in[0].Spec.Devices[1].BindingConditions = []string{"a"}
	in[0].Spec.Devices[1].BindingFailureConditions = []string{"b"}
	before := decide(t, triplets, server(4)...)
	now := decide(t, triplets, in...)
	for _, m := range before.Molecules {
		want := map[string][]compound.Atom{}
		for _, a := range m.Atoms {
			want[a.Driver] = append(want[a.Driver], a)
		}
		for name, r := range map[string]*compound.Result{"before": before, "now": now} {
			if diff := cmp.Diff(want, r.AtomsOf(m.DeviceID)); diff != "" {
				t.Errorf("%s: atoms of %s (-want +got):\n%s", name, m.Device, diff)
			}
		}
	}
	if got := now.AtomsOf(inventory.DeviceID{Driver: "compound.kerf.dev", Pool: "node-1/triplets", Device: "gpu0"}); got != nil {
		t.Errorf("gpu0, which is no name of a molecule, is %v", got)
	}
}
