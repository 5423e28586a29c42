// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/sandbox/manifest"
)

// equip starts what the set's fabrics need: the shelf, the controller, and the drivers
// of the models on the nodes of the shelf's hosts.
func (s *Sandbox) equip(ctx context.Context, set *manifest.Set) error {
	if !set.NeedsFabric() {
		return nil
	}
	if err := s.StartFabric(ctx); err != nil {
		return err
	}
	if set.Shelf == nil {
		return nil
	}
	if err := s.StockShelf(ctx, set.Shelf.Config); err != nil {
		return err
	}
	for name, takes := range driversOf(set) {
		if err := s.RunDriver(ctx, Driver{Name: name, Takes: takes}); err != nil {
			return err
		}
	}
	return nil
}

// driversOf are the drivers that the fabrics of a set name, with the devices that they
// name them for.
func driversOf(set *manifest.Set) map[string]func(service.Device) bool {
	models := map[string][]v1alpha1.ModelMatch{}
	for _, object := range set.Objects {
		for _, m := range modelsOf(object) {
			models[m.Driver] = append(models[m.Driver], m.Match)
		}
	}
	drivers := map[string]func(service.Device) bool{}
	for name, matches := range models {
		drivers[name] = func(d service.Device) bool {
			for _, m := range matches {
				if fits(m.Manufacturer, d.Manufacturer) && fits(m.Model, d.Model) && fits(m.PartNumber, d.PartNumber) {
					return true
				}
			}
			return false
		}
	}
	return drivers
}

func fits(want, have string) bool { return want == "" || strings.EqualFold(want, have) }

// modelsOf are the models of a Fabric. What is wrong with one, the API server tells.
func modelsOf(object *manifest.Object) []v1alpha1.DeviceModel {
	if object.GroupVersionKind() != v1alpha1.SchemeGroupVersion.WithKind(manifest.FabricKind) {
		return nil
	}
	var f v1alpha1.Fabric
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &f); err != nil {
		return nil
	}
	return f.Spec.Models
}

// connectFabric has a Fabric use the service of the shelf, if there is one.
func (s *Sandbox) connectFabric(object *unstructured.Unstructured) error {
	if s.shelf() == nil {
		return nil
	}
	access, err := s.ShelfService()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&access)
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, content, "spec", "redfish")
}
