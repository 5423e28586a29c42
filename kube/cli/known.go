// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
)

// identity is an object as messages name it.
func identity(kind, namespace, name string) string {
	if namespace != "" {
		return kind + " " + namespace + "/" + name
	}
	return kind + " " + name
}

// identities calls visit for each object that must be in the input only once.
func identities(d *dump.Dump, visit func(id string)) {
	for o := range d.All {
		if kind := cluster.KindOf(o); kind != "Namespace" {
			visit(identity(kind, o.GetNamespace(), o.GetName()))
		}
	}
}

// twice finds objects that are in several manifests, or in several dumps.
func (f *files) twice(d *dump.Dump) manifest.Errors {
	var mistakes manifest.Errors
	seen := map[string]bool{}
	identities(d, func(id string) {
		if seen[id] {
			at := f.sources[id]
			mistakes = append(mistakes, at.in.Errorf(at.path+"metadata.name", "%s is in the input twice; leave one of them out", id))
		}
		seen[id] = true
	})
	return mistakes
}

// above puts the objects of the files onto those of a dump or cluster. What that
// has already is left out and returned: it is there with its state, which the
// manifests that it came from do not have.
func (f *files) above(base *dump.Dump) (known []string) {
	has := map[string]bool{}
	identities(base, func(id string) { has[id] = true })
	leave := func(id string) bool {
		if has[id] {
			known = append(known, id)
		}
		return has[id]
	}
	own := f.dump
	merged := dump.New()
	merged.Missing = own.Missing
	merged.Namespaces = own.Namespaces
	merged.Nodes = without("Node", own.Nodes, leave)
	merged.DeviceClasses = without("DeviceClass", own.DeviceClasses, leave)
	merged.ResourceSlices = without("ResourceSlice", own.ResourceSlices, leave)
	merged.DeviceTaintRules = without("DeviceTaintRule", own.DeviceTaintRules, leave)
	merged.ResourceQuotas = without("ResourceQuota", own.ResourceQuotas, leave)
	merged.ResourceClaimTemplates = without("ResourceClaimTemplate", own.ResourceClaimTemplates, leave)
	merged.ResourceClaims = without("ResourceClaim", own.ResourceClaims, leave)
	merged.Pods = without("Pod", own.Pods, leave)
	merged.CompoundPolicies = without("CompoundPolicy", own.CompoundPolicies, leave)
	f.listed = slices.DeleteFunc(f.listed, func(pod *v1.Pod) bool { return has[identity("Pod", pod.Namespace, pod.Name)] })
	merged.Merge(base)
	f.dump = merged
	return known
}

func without[T named](kind string, objects []T, leave func(id string) bool) []T {
	var kept []T
	for _, o := range objects {
		if !leave(identity(kind, o.GetNamespace(), o.GetName())) {
			kept = append(kept, o)
		}
	}
	return kept
}
