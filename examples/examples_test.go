// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples tests the examples: that their manifests are what the API defines.
package examples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric/redfish/description"
)

// shelfFile describes a shelf of devices as kerf-redfish reads it. It has no objects.
const shelfFile = "shelf.yaml"

// TestManifests decodes every manifest strictly: no unknown field, no duplicate field, no unknown kind. It then
// checks what the API server cannot: that pools are complete and counters exist.
func TestManifests(t *testing.T) {
	for _, dir := range exampleDirs(t) {
		t.Run(dir, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var slices []*resourceapi.ResourceSlice
			for _, file := range files {
				objects, err := decode(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, object := range objects {
					if slice, ok := object.(*resourceapi.ResourceSlice); ok {
						slices = append(slices, slice)
					}
				}
			}
			for _, problem := range poolProblems(slices) {
				t.Error(problem)
			}
		})
	}
}

// exampleDirs returns the folders with manifests.
func exampleDirs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no example found")
	}
	dirs := make([]string, 0, len(files))
	for _, file := range files {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

func decode(file string) ([]runtime.Object, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if filepath.Base(file) == shelfFile {
		if _, err := description.ParseConfig(data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return nil, nil
	}
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []runtime.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, len(objects)+1, err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, len(objects)+1, err)
		}
		objects = append(objects, object)
	}
}

type poolID struct{ driver, pool string }

// poolProblems reports pools whose slices are not all there and devices that consume counters nobody declares.
func poolProblems(slices []*resourceapi.ResourceSlice) []string {
	pools := map[poolID][]*resourceapi.ResourceSlice{}
	for _, slice := range slices {
		id := poolID{slice.Spec.Driver, slice.Spec.Pool.Name}
		pools[id] = append(pools[id], slice)
	}
	var problems []string
	for id, slices := range pools {
		declared := sets.New[string]()
		for _, slice := range slices {
			if want := slice.Spec.Pool.ResourceSliceCount; want != int64(len(slices)) {
				problems = append(problems, fmt.Sprintf("%s: pool %s has %d slices and says %d", slice.Name, id.pool, len(slices), want))
			}
			for _, set := range slice.Spec.SharedCounters {
				for counter := range set.Counters {
					declared.Insert(set.Name + "/" + counter)
				}
			}
		}
		for _, slice := range slices {
			for _, device := range slice.Spec.Devices {
				for counter := range consumed(device).Difference(declared) {
					problems = append(problems, fmt.Sprintf("%s: device %s consumes counter %s, which its pool does not have", slice.Name, device.Name, counter))
				}
			}
		}
	}
	return problems
}

func consumed(device resourceapi.Device) sets.Set[string] {
	names := sets.New[string]()
	for _, consumption := range device.ConsumesCounters {
		for counter := range consumption.Counters {
			names.Insert(consumption.CounterSet + "/" + counter)
		}
	}
	return names
}
