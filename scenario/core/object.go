// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		if class, ok := o.(*resourceapi.DeviceClass); ok && class.Spec.ExtendedResourceName != nil {
			return fmt.Errorf("class %s: core has no scheduler that makes claims for extended resources, so no class can serve %s; write [sandbox] before the verb", class.Name, *class.Spec.ExtendedResourceName)
		}
		b.apply(o)
	}
	return nil
}

func (b *Backend) apply(o scenario.Object) {
	setDefaults(o)
	if old, found := b.objects[keyOf(o)]; found {
		keepStatus(o, old)
		b.put(o)
		return
	}
	b.serial++
	b.born[keyOf(o)] = b.serial
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", b.serial)))
	b.put(o)
}

// put stores an object and tells the inventory.
func (b *Backend) put(o scenario.Object) {
	b.objects[keyOf(o)] = o
	b.moved = true
	switch o := o.(type) {
	case *resourceapi.ResourceSlice:
		b.inventory.SetSlice(o)
	case *resourceapi.DeviceTaintRule:
		b.inventory.SetTaintRule(o)
	case *scenario.Claim:
		b.inventory.SetClaim(o)
	}
}

// remove removes an object and tells the inventory.
func (b *Backend) remove(o scenario.Object) {
	delete(b.objects, keyOf(o))
	delete(b.born, keyOf(o))
	b.moved = true
	switch o := o.(type) {
	case *resourceapi.ResourceSlice:
		b.inventory.DeleteSlice(o.Name)
	case *resourceapi.DeviceTaintRule:
		b.inventory.DeleteTaintRule(o.Name)
	case *scenario.Claim:
		b.inventory.DeleteClaim(o)
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
	pod, found := get[*v1.Pod](b, "Pod", namespace, name)
	if !found {
		return fmt.Errorf("no pod %s/%s", namespace, name)
	}
	if pod.Spec.NodeName == "" {
		return fmt.Errorf("pod %s/%s does not run: it is pending", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Status.Phase = v1.PodSucceeded
	b.put(pod)
	return nil
}

// SetDevices replaces status.devices of a claim.
func (b *Backend) SetDevices(claim *scenario.Claim) error {
	stored, found := get[*scenario.Claim](b, "ResourceClaim", claim.Namespace, claim.Name)
	if !found {
		return fmt.Errorf("no claim %s/%s", claim.Namespace, claim.Name)
	}
	stored = stored.DeepCopy()
	stored.Status.Devices = claim.DeepCopy().Status.Devices
	b.put(stored)
	return nil
}

func keepStatus(o, old scenario.Object) {
	o.SetUID(old.GetUID())
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
	if len(reported) == 0 {
		return old
	}
	all := v1.ResourceList{}
	maps.Copy(all, old)
	maps.Copy(all, reported)
	return all
}

// setDefaults does what the API server's defaulting does for the fields that
// matter here.
func setDefaults(o scenario.Object) {
	switch o := o.(type) {
	case *v1.Pod:
		o.Status.Phase = v1.PodPending
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
