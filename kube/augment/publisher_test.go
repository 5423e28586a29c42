// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	pure "kerf.dev/kerf/augment"
	"kerf.dev/kerf/kube/augment"
)

const claimFile = `apiVersion: kerf.dev/v1alpha1
kind: DeviceAugmentation
driver: gpu.example.com
rules:
- select: {attributes: {uuid: {string: GPU-1}}}
  add: {taints: [{key: fabric.kerf.dev/claim, value: 5f0cbb1a, effect: NoSchedule}]}
`

// gpus are the resources of a node with devices gpu-0, gpu-1, ...
func gpus(n int) resourceslice.DriverResources {
	var devices []resourceapi.Device
	for i := range n {
		devices = append(devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: new(fmt.Sprintf("GPU-%d", i))}},
		})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{{Devices: devices}}}}}
}

// summary has a line per slice: its devices, each with its taints and what
// attributes it has beside its uuid.
func summary(resources resourceslice.DriverResources) string {
	var lines []string
	for _, s := range resources.Pools["node-1"].Slices {
		var devices []string
		for _, d := range s.Devices {
			text := d.Name
			for _, name := range []resourceapi.QualifiedName{"example.com/rack", "example.com/row"} {
				if a, ok := d.Attributes[name]; ok {
					text += " " + *a.StringValue
				}
			}
			for _, taint := range d.Taints {
				text += " " + taint.Value
			}
			devices = append(devices, text)
		}
		lines = append(lines, strings.Join(devices, ", "))
	}
	return strings.Join(lines, "\n")
}

// published is a Publisher with what came out of it.
type published struct {
	*augment.Publisher
	resources chan resourceslice.DriverResources
	reports   chan error
	fail      chan error // errors that publications return, one each
}

func newPublished(t *testing.T, directory string) *published {
	t.Helper()
	p := &published{
		resources: make(chan resourceslice.DriverResources, 100), reports: make(chan error, 100), fail: make(chan error, 1),
	}
	var err error
	p.Publisher, err = augment.NewPublisher(t.Context(), augment.Config{
		Directory: directory, Driver: driver,
		Publish: func(_ context.Context, resources resourceslice.DriverResources) error {
			p.resources <- resources
			select {
			case err := <-p.fail:
				return err
			default:
				return nil
			}
		},
		Report: func(err error) { p.reports <- err },
	})
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// next waits for the next publication and compares it.
func (p *published) next(t *testing.T, want string) resourceslice.DriverResources {
	t.Helper()
	resources := receive(t, p.resources)
	if diff := cmp.Diff(want, summary(resources)); diff != "" {
		t.Fatalf("published (-want +got):\n%s", diff)
	}
	return resources
}

// A device that arrives after the file was written has the taint when it is first
// published: Publish reads what is there, whether or not the kernel has told of it.
func TestFirstPublicationHasTheTaint(t *testing.T) {
	directory := t.TempDir()
	p := newPublished(t, directory)
	own := gpus(1)
	must(t, p.Publish(t.Context(), own))
	p.next(t, "gpu-0")

	write(t, directory, "claim.yaml", claimFile)
	own = gpus(2)
	must(t, p.Publish(t.Context(), own))
	resources := p.next(t, "gpu-0, gpu-1 5f0cbb1a")
	if diff := cmp.Diff(gpus(2), own); diff != "" {
		t.Errorf("the driver's own resources changed (-before +after):\n%s", diff)
	}

	// The slice as it is read back, once with what was added and once without.
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1"}, Devices: resources.Pools["node-1"].Slices[0].Devices,
	}}
	if diff := cmp.Diff(own.Pools["node-1"].Slices[0].Devices, p.Strip(slice).Spec.Devices); diff != "" {
		t.Errorf("stripped devices (-driver's +got):\n%s", diff)
	}
	if len(slice.Spec.Devices[1].Taints) != 1 {
		t.Error("the slice changed")
	}

	must(t, os.Remove(filepath.Join(directory, "claim.yaml")))
	p.next(t, "gpu-0, gpu-1")
}

// Whatever the driver does with its resources after Publish, a change of the files
// publishes what it had published; and nothing before it did.
func TestChangePublishesAgain(t *testing.T) {
	directory := t.TempDir()
	p := newPublished(t, directory)
	write(t, directory, "a.yaml", ruleFile("rack", "r6"))
	own := gpus(1)
	must(t, p.Publish(t.Context(), own))
	own.Pools["node-1"].Slices[0].Devices[0].Name = "changed"
	p.next(t, "gpu-0 r6")
	write(t, directory, "a.yaml", ruleFile("rack", "r7"))
	p.next(t, "gpu-0 r7")
	write(t, directory, "b.yaml", "rules: []")
	if broken := (*augment.BrokenFile)(nil); !errors.As(receive(t, p.reports), &broken) {
		t.Error("the report is not about a broken file")
	}
	write(t, directory, "b.yaml", ruleFile("row", "2"))
	p.next(t, "gpu-0 r7 2")
}

// Files that contradict each other are reported once, and the first by name stays.
func TestContradictionIsReported(t *testing.T) {
	directory := t.TempDir()
	p := newPublished(t, directory)
	write(t, directory, "a.yaml", ruleFile("rack", "r7"))
	write(t, directory, "b.yaml", ruleFile("rack", "r8")+ruleFileRule("row", "2"))
	for range 2 {
		must(t, p.Publish(t.Context(), gpus(1)))
		p.next(t, "gpu-0 r7")
	}
	var refusal *pure.Refusal
	if err := receive(t, p.reports); !errors.As(err, &refusal) || refusal.File != "b.yaml" || len(refusal.Others) != 1 || refusal.Others[0].File != "a.yaml" {
		t.Errorf("report is %v", err)
	}
	must(t, os.Remove(filepath.Join(directory, "a.yaml")))
	p.next(t, "gpu-0 r8 2")
	if len(p.reports) > 0 {
		t.Errorf("another report: %v", <-p.reports)
	}
}

func ruleFileRule(name, value string) string {
	file := ruleFile(name, value)
	return file[strings.Index(file, "- {"):]
}

func TestPublicationFails(t *testing.T) {
	directory := t.TempDir()
	p := newPublished(t, directory)
	failure := errors.New("API server is down")
	p.fail <- failure
	if err := p.Publish(t.Context(), gpus(1)); !errors.Is(err, failure) {
		t.Errorf("error of Publish is %v", err)
	}
	p.next(t, "gpu-0")
	p.fail <- failure
	write(t, directory, "a.yaml", ruleFile("rack", "r7"))
	p.next(t, "gpu-0 r7")
	if err := receive(t, p.reports); !errors.Is(err, failure) || !strings.Contains(err.Error(), directory) {
		t.Errorf("report is %v", err)
	}
}

func TestNewPublisherRefuses(t *testing.T) {
	_, err := augment.NewPublisher(t.Context(), augment.Config{Directory: t.TempDir(), Driver: driver, Report: func(error) {}})
	if want := "config: publish is nil: give the function that publishes the driver's resources"; fmt.Sprint(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// With a taint, a slice has room for half as many devices.
func TestSliceIsSplit(t *testing.T) {
	file, err := pure.Parse("claim.yaml", []byte(claimFile))
	must(t, err)
	rules := pure.NewRules(file)
	for _, tc := range []struct {
		name    string
		devices int
		change  func(*resourceslice.Slice)
		want    []int // devices per slice
	}{
		{"without the device", 1, nil, []int{1}},
		{"just fits", 64, nil, []int{64}},
		{"too large", 65, nil, []int{64, 1}},
		{"full", 128, nil, []int{64, 64}},
		{"too large already", 65, func(s *resourceslice.Slice) {
			s.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: "a", Effect: "None"}}
		}, []int{65}},
	} {
		own := gpus(tc.devices)
		own.Pools["node-1"].Slices[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{"*"}
		if tc.change != nil {
			tc.change(&own.Pools["node-1"].Slices[0])
		}
		augmented, _, _ := augment.Apply(rules, driver, own)
		var got []int
		var devices []string
		for _, s := range augmented.Pools["node-1"].Slices {
			got = append(got, len(s.Devices))
			if len(s.SkipNodeOperations) != 1 {
				t.Errorf("%s: a part lost its node operations", tc.name)
			}
			for _, d := range s.Devices {
				devices = append(devices, d.Name)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: devices per slice (-want +got):\n%s", tc.name, diff)
		}
		for i, name := range devices {
			if want := fmt.Sprintf("gpu-%d", i); name != want {
				t.Errorf("%s: device %d is %s, want %s", tc.name, i, name, want)
			}
		}
	}
}
