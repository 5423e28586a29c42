// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// object is a Kubernetes object with the fields in the order that people write them in, and without the empty status
// that the API types add.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       any    `json:"spec,omitempty"`
	Status     any    `json:"status,omitempty"`
}

type meta struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

type nodeStatus struct {
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

// newNode returns a server of the size that usually carries accelerators.
func newNode(name string, labels map[string]string) object {
	all := map[string]string{corev1.LabelHostname: name}
	maps.Copy(all, labels)
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return object{
		APIVersion: corev1.SchemeGroupVersion.String(),
		Kind:       "Node",
		Metadata:   meta{Name: name, Labels: all},
		Status:     nodeStatus{Capacity: size, Allocatable: size},
	}
}

// poolSlices completes the specs to the ResourceSlices of one pool of a driver.
func poolSlices(driver, pool string, specs ...resourceapi.ResourceSliceSpec) []object {
	var slices []object
	for i, spec := range specs {
		spec.Driver = driver
		spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: int64(len(specs))}
		slices = append(slices, object{
			APIVersion: resourceapi.SchemeGroupVersion.String(),
			Kind:       "ResourceSlice",
			Metadata:   meta{Name: fmt.Sprintf("%s-%s-%d", pool, driver, i)},
			Spec:       spec,
		})
	}
	return slices
}

func counters(of map[string]int64) map[string]resourceapi.Counter {
	c := map[string]resourceapi.Counter{}
	for name, value := range of {
		c[name] = resourceapi.Counter{Value: *resource.NewQuantity(value, resource.DecimalSI)}
	}
	return c
}

func capacity(quantity string) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: resource.MustParse(quantity)}
}

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
func version(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &s}
}
func flagged(b bool) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{BoolValue: &b} }
func number(i int64) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{IntValue: &i} }

// uuid derives a stable identifier in the form drivers report from the place of a device.
func uuid(place string) string {
	h := sha256.Sum256([]byte(place))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
