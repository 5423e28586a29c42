// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
)

// alignResolver makes sure that the rest of the scheduler knows which resources classes
// serve: NodeResourcesFit refuses the pod otherwise. The resolver that they share
// forgets a mapping when another class of the same name for it goes or changes, and
// never learns the name that an older class has of itself. It is told by the events
// that it handles, which also wakes pods: so this is for PreFilter, not for hints,
// which are called with the queue locked. It returns the resources that the resolver
// takes for served although no class does.
func (s *Claims) alignResolver(names []v1.ResourceName, demands []claim.Demand) (dangling []v1.ResourceName) {
	resolver := s.Manager.DeviceClassResolver()
	for _, name := range names {
		i := slices.IndexFunc(demands, func(d claim.Demand) bool { return d.Resource == name })
		known := resolver.GetDeviceClass(name) != nil
		switch {
		case i < 0 && known:
			dangling = append(dangling, name)
		case i >= 0 && !known:
			s.informResolver(resolver, demands[i])
		}
	}
	return dangling
}

func (s *Claims) informResolver(resolver fwk.DeviceClassResolver, d claim.Demand) {
	handler, ok := resolver.(cache.ResourceEventHandler)
	class, err := s.Manager.DeviceClasses().Get(d.Class)
	if !ok || err != nil {
		return // not the one of the scheduler, or the class has just gone
	}
	if string(d.Resource) == resourceapi.ResourceDeviceClassPrefix+class.Name {
		// Without the other name, which a newer class may have.
		class = class.DeepCopy()
		class.Spec.ExtendedResourceName = nil
	}
	handler.OnAdd(class, false)
}

// ServesOtherwise reports whether some extended resource of the pod is served by
// another class than before a class changed.
func (s *Claims) ServesOtherwise(pod *v1.Pod, before, after *resourceapi.DeviceClass) (bool, error) {
	if !s.Enabled {
		return false, nil
	}
	names := claim.ExtendedResources(pod)
	if len(names) == 0 {
		return false, nil
	}
	classes, err := s.Manager.DeviceClasses().List()
	if err != nil {
		return false, fmt.Errorf("list device classes: %w", err)
	}
	changed := cmp.Or(after, before).Name
	others := slices.DeleteFunc(slices.Clone(classes), func(c *resourceapi.DeviceClass) bool { return c.Name == changed })
	return slices.ContainsFunc(names, func(name v1.ResourceName) bool {
		return serving(name, before, others) != serving(name, after, others)
	}), nil
}

// serving is the name of the class that serves a resource.
func serving(name v1.ResourceName, class *resourceapi.DeviceClass, others []*resourceapi.DeviceClass) string {
	found := claim.ClassServing(name, func(yield func(*resourceapi.DeviceClass) bool) {
		if class != nil && !yield(class) {
			return
		}
		for _, other := range others {
			if !yield(other) {
				return
			}
		}
	})
	if found == nil {
		return ""
	}
	return found.Name
}
