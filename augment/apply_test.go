// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"kerf.dev/kerf/augment"
)

const header = "apiVersion: kerf.dev/v1alpha1\nkind: DeviceAugmentation\ndriver: gpu.example.com\nrules:\n"

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// node is a pool of two GPUs and a partition.
func node() []augment.Pool {
	return []augment.Pool{{Name: "node-1", Devices: []resourceapi.Device{
		{Name: "gpu-0", Attributes: attributes{"uuid": text("GPU-123"), "tags": {StringValues: []string{"hot", "old"}}}},
		{Name: "gpu-1", Attributes: attributes{"gpu.example.com/uuid": text("GPU-456"), "resource.kubernetes.io/pciBusID": text("0000:3b:00.0")}},
		{Name: "gpu-1-half", Taints: []resourceapi.DeviceTaint{{Key: "example.com/partition", Effect: resourceapi.DeviceTaintEffectNone}}},
	}}}
}

func TestSelect(t *testing.T) {
	for _, tc := range []struct {
		selector string
		want     string // devices
	}{
		{`name: gpu-1`, "gpu-1"},
		{`name: "gpu-?"`, "gpu-0 gpu-1"},
		{`name: "gpu-[1-9]*"`, "gpu-1 gpu-1-half"},
		{`name: "*", pool: node-2`, ""},
		{`pool: "node-*"`, "gpu-0 gpu-1 gpu-1-half"},
		{`attributes: {uuid: {string: GPU-123}}`, "gpu-0"},
		{`attributes: {gpu.example.com/uuid: {string: GPU-123}}`, "gpu-0"},
		{`attributes: {uuid: {string: GPU-456}}`, "gpu-1"},
		{`attributes: {gpu.example.com/uuid: {string: GPU-456}}`, "gpu-1"},
		{`attributes: {nic.example.com/uuid: {string: GPU-123}}`, ""},
		{`attributes: {uuid: {version: 1.2.3}}`, ""},
		{`attributes: {resource.kubernetes.io/pciBusID: {string: "0000:3b:00.0"}}`, "gpu-1"},
		{`attributes: {tags: {string: hot}}`, "gpu-0"},
		{`name: gpu-1, attributes: {tags: {string: hot}}`, ""},
		// What another rule adds selects nothing.
		{`attributes: {example.com/marked: {bool: true}}`, ""},
	} {
		t.Run(tc.selector, func(t *testing.T) {
			file := parse(t, "f.yaml", header+`
- {select: {name: "*"}, add: {attributes: {example.com/marked: {bool: true}}}}
- {select: {`+tc.selector+`}, add: {taints: [{key: selected, effect: None}]}}`)
			result := augment.NewRules(file).Apply("gpu.example.com", node())
			if len(result.Refused) > 0 {
				t.Fatal(result.Refused[0])
			}
			var got []string
			for _, added := range result.Added {
				if len(added.Taints) > 0 {
					got = append(got, added.Device)
				}
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("selects %q, want %q", got, tc.want)
			}
		})
	}
}

// The claim's taint is on the arriving device before anybody sees it, behind what
// the driver has to say.
func TestAdd(t *testing.T) {
	file := parse(t, "f.yaml", header+`
- select: {attributes: {uuid: {string: GPU-123}}}
  add:
    attributes: {example.com/rack: {string: r7}, vendor: {string: example}}
    taints: [{key: fabric.kerf.dev/claim, value: 5f0cbb1a, effect: NoSchedule}]
- select: {name: gpu-1-half}
  add:
    taints:
    - {key: example.com/slow, effect: None}
    - {key: example.com/partition, effect: None}
`)
	want := node()
	want[0].Devices[0].Attributes["example.com/rack"] = text("r7")
	want[0].Devices[0].Attributes["vendor"] = text("example")
	want[0].Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "fabric.kerf.dev/claim", Value: "5f0cbb1a", Effect: "NoSchedule"}}
	want[0].Devices[2].Taints = append(want[0].Devices[2].Taints, resourceapi.DeviceTaint{Key: "example.com/slow", Effect: "None"})
	got := augment.NewRules(file).Apply("gpu.example.com", node())
	if diff := cmp.Diff(want, got.Pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	wantAdded := augment.Additions{
		{Pool: "node-1", Device: "gpu-0", Addition: augment.Addition{
			Attributes: attributes{"example.com/rack": text("r7"), "vendor": text("example")}, Taints: want[0].Devices[0].Taints,
		}},
		// The driver's own taint is not ours to take away.
		{Pool: "node-1", Device: "gpu-1-half", Addition: augment.Addition{Taints: want[0].Devices[2].Taints[1:]}},
	}
	if diff := cmp.Diff(wantAdded, got.Added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	if other := augment.NewRules(file).Apply("nic.example.com", node()); len(other.Added) > 0 {
		t.Errorf("devices of another driver got %v", other.Added)
	}
}

func TestRefused(t *testing.T) {
	full := func() []augment.Pool {
		pools := node()
		for i := range 15 {
			pools[0].Devices[0].Taints = append(pools[0].Devices[0].Taints, resourceapi.DeviceTaint{Key: fmt.Sprint("k", i), Effect: "None"})
		}
		for i := range 29 {
			pools[0].Devices[0].Attributes[resourceapi.QualifiedName(fmt.Sprint("a", i))] = text("x")
		}
		return pools
	}
	for _, tc := range []struct {
		name  string
		pools []augment.Pool
		files []string // a.yaml, b.yaml, ...
		want  []string
	}{
		{
			"two files give an attribute different values", node(),
			[]string{
				`- {select: {name: gpu-0}, add: {attributes: {example.com/rack: {string: r7}}}}`,
				`- {select: {name: "*"}, add: {attributes: {example.com/rack: {string: r8}}}}`,
			},
			[]string{`b.yaml:5: rules[0].add.attributes[example.com/rack]: device gpu-0 in pool node-1: gives {"string":"r8"}, but the device has {"string":"r7"} from a.yaml:5: leave the attribute out, or select other devices; until then b.yaml is not used`},
		},
		{
			"also when one writes the driver's domain", node(),
			[]string{
				`- {select: {name: gpu-0}, add: {attributes: {rack: {string: r7}}}}`,
				`- {select: {name: "*"}, add: {attributes: {gpu.example.com/rack: {string: r8}}}}`,
			},
			[]string{`b.yaml:5: rules[0].add.attributes[gpu.example.com/rack]: device gpu-0 in pool node-1: gives {"string":"r8"}, but the device has {"string":"r7"} from a.yaml:5: leave the attribute out, or select other devices; until then b.yaml is not used`},
		},
		{
			"two files say the same", node(),
			[]string{
				`- {select: {name: gpu-0}, add: {attributes: {rack: {string: r7}}, taints: [{key: a, effect: None}]}}`,
				`- {select: {name: "*"}, add: {attributes: {gpu.example.com/rack: {string: r7}}, taints: [{key: a, effect: None}]}}`,
			},
			nil,
		},
		{
			"the driver says otherwise", node(),
			[]string{`- {select: {name: gpu-1}, add: {attributes: {uuid: {string: GPU-789}}}}`},
			[]string{`a.yaml:5: rules[0].add.attributes[uuid]: device gpu-1 in pool node-1: gives {"string":"GPU-789"}, but the device has {"string":"GPU-456"} from its driver: leave the attribute out, or select other devices; until then a.yaml is not used`},
		},
		{
			"a file contradicts itself", node(),
			[]string{"- {select: {name: gpu-1}, add: {attributes: {a: {int: 1}}}}\n- {select: {name: gpu-*}, add: {attributes: {a: {int: 2}}}}"},
			[]string{`a.yaml:6: rules[1].add.attributes[a]: device gpu-1 in pool node-1: gives {"int":2}, but the device has {"int":1} from a.yaml:5: leave the attribute out, or select other devices; until then a.yaml is not used`},
		},
		{
			"two claims for one device: each keeps the other away", node(),
			[]string{
				`- {select: {name: gpu-0}, add: {taints: [{key: claim, value: a, effect: NoSchedule}]}}`,
				`- {select: {name: gpu-0}, add: {taints: [{key: claim, value: b, effect: NoSchedule}]}}`,
			},
			nil,
		},
		{
			"too many taints", full(),
			[]string{
				`- {select: {name: gpu-0}, add: {taints: [{key: a, effect: None}]}}`,
				`- {select: {name: "*"}, add: {taints: [{key: b, effect: None}]}}`,
			},
			[]string{`b.yaml:5: rules[0].add.taints: device gpu-0 in pool node-1: brings it to 17 taints, more than 16, with those from a.yaml:5: add less, or select other devices; until then b.yaml is not used`},
		},
		{
			"too many attributes, by the driver alone", full(),
			[]string{`- {select: {name: "*"}, add: {attributes: {x: {int: 1}, y: {int: 1}}}}`},
			[]string{`a.yaml:5: rules[0].add.attributes: device gpu-0 in pool node-1: brings it to 33 attributes and capacities, more than 32, with those from its driver: add less, or select other devices; until then a.yaml is not used`},
		},
		{
			"too many values", node(),
			[]string{`- {select: {name: "*"}, add: {attributes: {x: {ints: [` + strings.Repeat("1, ", 45) + `1]}}}}`},
			[]string{`a.yaml:5: rules[0].add.attributes: device gpu-0 in pool node-1: brings it to 49 attribute values, more than 48, with those from its driver: add less, or select other devices; until then a.yaml is not used`},
		},
		{
			"a file that is left out does not stand in the way", full(),
			[]string{
				"- {select: {name: gpu-0}, add: {taints: [{key: a, effect: None}]}}\n- {select: {name: gpu-1}, add: {attributes: {uuid: {int: 1}}}}",
				`- {select: {name: gpu-0}, add: {taints: [{key: b, effect: None}]}}`,
			},
			[]string{`a.yaml:6: rules[1].add.attributes[uuid]: device gpu-1 in pool node-1: gives {"int":1}, but the device has {"string":"GPU-456"} from its driver: leave the attribute out, or select other devices; until then a.yaml is not used`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var files []*augment.File
			for i, rules := range tc.files {
				files = append(files, parse(t, string(rune('a'+i))+".yaml", header+rules))
			}
			result := augment.NewRules(files...).Apply("gpu.example.com", tc.pools)
			var got []string
			refused := map[string]bool{}
			for _, r := range result.Refused {
				got = append(got, r.Error())
				refused[r.File] = true
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			files = slices.DeleteFunc(files, func(f *augment.File) bool { return refused[f.Name()] })
			without := augment.NewRules(files...).Apply("gpu.example.com", tc.pools)
			if diff := cmp.Diff(without.Pools, result.Pools); diff != "" {
				t.Errorf("a file that is not used has an effect (-without +with):\n%s", diff)
			}
		})
	}
}

// The order in which files were loaded, and the order of the rules, change
// nothing; the devices that went in stay what they were.
func TestApplyIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files, pools := genFiles(t), genPools().Draw(t, "pools")
		before := copyOf(pools)
		want := augment.NewRules(files...).Apply(drivers[0], pools)
		got := augment.NewRules(rapid.Permutation(files).Draw(t, "order")...).Apply(drivers[0], pools)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, pools); diff != "" {
			t.Fatalf("the driver's devices changed (-before +after):\n%s", diff)
		}
		var reversed []*augment.File
		for _, f := range files {
			rules := slices.Clone(f.Documents()[0].Rules)
			slices.Reverse(rules)
			data, err := augment.Marshal(augment.NewDocument(drivers[0], rules...))
			if err != nil {
				t.Fatal(err)
			}
			file, err := augment.Parse(f.Name(), data)
			if err != nil {
				t.Fatal(err)
			}
			reversed = append(reversed, file)
		}
		got = augment.NewRules(reversed...).Apply(drivers[0], pools)
		byKey := cmpopts.SortSlices(func(a, b resourceapi.DeviceTaint) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
		if diff := cmp.Diff(want.Pools, got.Pools, byKey, cmp.Transformer("qualified", qualified)); diff != "" {
			t.Fatalf("pools with the rules in reverse (-want +got):\n%s", diff)
		}
	})
}

// qualified writes all names in full: of two rules that say the same about an
// attribute, the first decides how its name is written.
func qualified(a attributes) map[string]resourceapi.DeviceAttribute {
	full := map[string]resourceapi.DeviceAttribute{}
	for name, value := range a {
		if key := string(name); strings.Contains(key, "/") {
			full[key] = value
		} else {
			full[drivers[0]+"/"+key] = value
		}
	}
	return full
}

// What was added can be taken away again, also after the additions were stored
// and the API server has put times on the taints.
func TestStripGivesBackWhatTheDriverWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := genPools().Draw(t, "pools")
		result := augment.NewRules(genFiles(t)...).Apply(drivers[0], pools)
		data, err := json.Marshal(result.Added)
		if err != nil {
			t.Fatal(err)
		}
		var added augment.Additions
		if err := json.Unmarshal(data, &added); err != nil {
			t.Fatal(err)
		}
		read := copyOf(result.Pools)
		for p, pool := range read {
			for i, device := range pool.Devices {
				for j := range device.Taints {
					device.Taints[j].TimeAdded = &metav1.Time{}
				}
				got := added.Strip(pool.Name, device)
				if diff := cmp.Diff(pools[p].Devices[i], got, cmpopts.IgnoreFields(resourceapi.DeviceTaint{}, "TimeAdded")); diff != "" {
					t.Fatalf("stripped device (-driver's +got):\n%s", diff)
				}
			}
		}
	})
}

func TestEqual(t *testing.T) {
	rule := func(value string) string {
		return `- {select: {name: "*"}, add: {attributes: {example.com/rack: {string: ` + value + `}}}}`
	}
	rules := augment.NewRules(parse(t, "a.yaml", header+rule("r7")))
	for _, tc := range []struct {
		name  string
		files []*augment.File
		want  bool
	}{
		{"the same", []*augment.File{parse(t, "a.yaml", header+rule("r7"))}, true},
		{"another name and a comment", []*augment.File{parse(t, "b.yaml", "# racks\n"+header+rule("r7"))}, true},
		{"more about another driver", []*augment.File{
			parse(t, "a.yaml", header+rule("r7")), parse(t, "b.yaml", strings.Replace(header, "gpu", "nic", 1)+rule("r9")),
		}, true},
		{"another value", []*augment.File{parse(t, "a.yaml", header+rule("r8"))}, false},
		{"twice", []*augment.File{parse(t, "a.yaml", header+rule("r7")), parse(t, "b.yaml", header+rule("r7"))}, false},
		{"none", nil, false},
	} {
		if got := rules.Equal(augment.NewRules(tc.files...), "gpu.example.com"); got != tc.want {
			t.Errorf("%s: equal is %v", tc.name, got)
		}
	}
}

func copyOf(pools []augment.Pool) []augment.Pool {
	copied := slices.Clone(pools)
	for p := range copied {
		copied[p].Devices = slices.Clone(copied[p].Devices)
		for i := range copied[p].Devices {
			copied[p].Devices[i] = *copied[p].Devices[i].DeepCopy()
		}
	}
	return copied
}
