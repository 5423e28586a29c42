// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// Apply creates the objects, or updates those of the same kind and name. What
// the API server keeps on updates is kept: the status and the UID; nodes offer what
// they are to offer beside what they did. The objects become the backend's.
func (b *Backend) Apply(objects ...scenario.Object) error {
	for _, o := range objects {
		if kind := scenario.KindOf(o); kind.Word == "" {
			return fmt.Errorf("%s %s: core has no %s %s; begin the story with: only sandbox because REASON", kind.Name, o.GetName(), kind.APIVersion, kind.Name)
		}
		b.apply(o)
	}
	return nil
}

func (b *Backend) apply(o scenario.Object) {
	if old, found := b.objects[keyOf(o)]; found {
		keepStatus(o, old)
		setDefaults(o)
		b.put(o)
		return
	}
	setDefaults(o)
	b.adopt(o)
	b.serial++
	o.SetCreationTimestamp(*b.now())
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", b.serial)))
	b.put(o)
}

// adopt has the pods that own an object be those of their names here. Others own nothing,
// or it would be deleted.
func (b *Backend) adopt(o scenario.Object) {
	var owners []metav1.OwnerReference
	for _, owner := range o.GetOwnerReferences() {
		if pod, err := b.pod(o.GetNamespace(), owner.Name); err == nil && owner.Kind == "Pod" {
			owner.UID = pod.UID
			owners = append(owners, owner)
		}
	}
	o.SetOwnerReferences(owners)
}

// create applies a claim that simulate has made.
func (b *Backend) create(c *scenario.Claim) {
	c.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"))
	b.apply(c)
}

// now is later with every object that is created.
func (b *Backend) now() *metav1.Time {
	now := metav1.Unix(b.serial, 0)
	return &now
}

// claim returns the claim of that name, if there is one.
func (b *Backend) claim(namespace, name string) (*scenario.Claim, bool) {
	c, found := b.objects[key{"ResourceClaim", namespace, name}].(*scenario.Claim)
	return c, found
}

// put stores an object and tells the inventory.
func (b *Backend) put(o scenario.Object) {
	b.objects[keyOf(o)] = o
	b.changed()
	switch o := o.(type) {
	case *resourceapi.ResourceSlice:
		b.options.Inventory.SetSlice(o)
	case *resourceapi.DeviceTaintRule:
		b.options.Inventory.SetTaintRule(o)
	case *scenario.Claim:
		b.options.Inventory.SetHolds(o.Namespace+"/"+o.Name, inventory.HoldsOf(o))
	}
}

// remove removes an object and tells the inventory.
func (b *Backend) remove(o scenario.Object) {
	delete(b.objects, keyOf(o))
	b.changed()
	switch o := o.(type) {
	case *resourceapi.ResourceSlice:
		b.options.Inventory.DeleteSlice(o.Name)
	case *resourceapi.DeviceTaintRule:
		b.options.Inventory.DeleteTaintRule(o.Name)
	case *scenario.Claim:
		b.options.Inventory.SetHolds(o.Namespace+"/"+o.Name, nil)
		delete(b.failed, keyOf(o))
	}
}

// Delete deletes an object. A claim that is in use is only marked and goes when
// the last of its pods is gone, like one with the claim controller's finalizer.
func (b *Backend) Delete(kind scenario.Kind, namespace, name string) error {
	o, found := b.objects[key{kind.Name, namespace, name}]
	if !found {
		return fmt.Errorf("no %s %s", kind.Word, name)
	}
	if claim, ok := o.(*scenario.Claim); ok && claim.Status.Allocation != nil {
		claim = claim.DeepCopy()
		claim.DeletionTimestamp = &metav1.Time{}
		b.put(claim)
		return nil
	}
	b.remove(o)
	return nil
}

// Finish lets a running pod succeed.
func (b *Backend) Finish(namespace, name string) error {
	pod, err := b.pod(namespace, name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return fmt.Errorf("pod %s/%s does not run: it is pending", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Status.Phase = v1.PodSucceeded
	b.put(pod)
	return nil
}

// SetDevices replaces status.devices of a claim. The time of conditions is now.
func (b *Backend) SetDevices(claim *scenario.Claim) error {
	stored, found := b.claim(claim.Namespace, claim.Name)
	if !found {
		return fmt.Errorf("no claim %s/%s", claim.Namespace, claim.Name)
	}
	stored = stored.DeepCopy()
	stored.Status.Devices = claim.DeepCopy().Status.Devices
	for i := range stored.Status.Devices {
		for j := range stored.Status.Devices[i].Conditions {
			if said := &stored.Status.Devices[i].Conditions[j].LastTransitionTime; said.IsZero() {
				*said = *b.now()
			}
		}
	}
	b.put(stored)
	return nil
}

func keepStatus(o, old scenario.Object) {
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	switch old := old.(type) {
	case *v1.Pod:
		if o, ok := o.(*v1.Pod); ok {
			o.Status, o.Spec.NodeName = old.Status, old.Spec.NodeName
		}
	case *scenario.Claim:
		if o, ok := o.(*scenario.Claim); ok {
			o.Status = old.Status
		}
	case *v1.Node:
		if o, ok := o.(*v1.Node); ok {
			o.Status.Allocatable = merged(old.Status.Allocatable, o.Status.Allocatable)
		}
	}
}

// merged is what a node has when the kubelet reports some of it anew.
func merged(old, reported v1.ResourceList) v1.ResourceList {
	all := v1.ResourceList{}
	maps.Copy(all, old)
	maps.Copy(all, reported)
	return all
}

// setDefaults does what the API server's defaulting does for the fields that
// matter here.
func setDefaults(o scenario.Object) {
	switch o := o.(type) {
	case *v1.Node:
		o.Status.Allocatable = cluster.Ample(o.Status.Allocatable)
	case *v1.Pod:
		o.Status.Phase = cmp.Or(o.Status.Phase, v1.PodPending)
	case *scenario.Claim:
		defaultRequests(&o.Spec)
	case *resourceapi.ResourceClaimTemplate:
		defaultRequests(&o.Spec.Spec)
	}
}

func defaultRequests(spec *resourceapi.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			defaultCount(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			defaultCount(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

func defaultCount(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}
