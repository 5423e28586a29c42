// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/kube/manifest"
)

// Equip starts what the set's fabrics need: the shelf, the controller, and the drivers
// of the models on the nodes of the shelf's hosts.
func (r *Rack) Equip(ctx context.Context, set *manifest.Set) error {
	if !set.NeedsFabric() {
		return nil
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	if set.Shelf == nil {
		return nil
	}
	if err := r.Stock(ctx, set.Shelf.Config); err != nil {
		return err
	}
	for name, takes := range driversOf(set) {
		if err := r.RunDriver(ctx, Driver{Name: name, Takes: takes}); err != nil {
			return err
		}
	}
	return nil
}

// Notes say which part of a fabric is missing: devices of a shelf are offered
// where a Fabric is ready, describes them, and finds nodes among the shelf's hosts.
func (r *Rack) Notes(ctx context.Context) ([]string, error) {
	fabrics, err := r.Fabrics(ctx)
	if err != nil {
		return nil, err
	}
	return notes(r.shelf() != nil, fabrics.Fabrics), nil
}

func notes(shelf bool, fabrics []v1alpha1.Fabric) []string {
	if shelf && len(fabrics) == 0 {
		return []string{"the shelf is not offered: no Fabric describes it"}
	}
	var notes []string
	for i := range fabrics {
		f := &fabrics[i]
		ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady)
		switch {
		case ready == nil:
			notes = append(notes, fmt.Sprintf("fabric %s is not ready: the controller has said nothing of it", f.Name))
		case ready.Status != metav1.ConditionTrue:
			notes = append(notes, fmt.Sprintf("fabric %s is not ready: %s", f.Name, cmp.Or(ready.Message, ready.Reason)))
		case f.Status.Devices.Total == 0 || f.Status.Nodes == 0:
			notes = append(notes, fmt.Sprintf("fabric %s offers no device: %s", f.Name, ready.Message))
		}
	}
	return notes
}

// driversOf are the drivers that the fabrics of a set name, with the devices that they
// name them for.
func driversOf(set *manifest.Set) map[string]func(service.Device) bool {
	models := map[string][]v1alpha1.DeviceModel{}
	for _, object := range set.Objects {
		for _, m := range modelsOf(object) {
			models[m.Driver] = append(models[m.Driver], m)
		}
	}
	drivers := map[string]func(service.Device) bool{}
	for name, models := range models {
		drivers[name] = func(d service.Device) bool { return matches(models, d.Manufacturer, d.Model, d.PartNumber) }
	}
	return drivers
}

// matches tells whether a device is of one of the models.
func matches(models []v1alpha1.DeviceModel, manufacturer, model, partNumber string) bool {
	fits := func(want, have string) bool { return want == "" || strings.EqualFold(want, have) }
	return slices.ContainsFunc(models, func(m v1alpha1.DeviceModel) bool {
		return fits(m.Match.Manufacturer, manufacturer) && fits(m.Match.Model, model) && fits(m.Match.PartNumber, partNumber)
	})
}

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

// Connect has a Fabric use the service of the shelf, if there is one.
func (r *Rack) Connect(object *unstructured.Unstructured) error {
	if r.shelf() == nil {
		return nil
	}
	access, err := r.Access()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&access)
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, content, "spec", "redfish")
}
