// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
)

// namespacesIn finds a namespace of manifests, or of the dumps or the cluster below
// them. Where those could not be listed, one that is not known is taken to allow what
// its label would have to.
func namespacesIn(set *manifest.Set, below ...*dump.Dump) func(name string) *v1.Namespace {
	known := map[string]*v1.Namespace{}
	unlisted := false
	for _, object := range set.Objects {
		if object.GetKind() == "Namespace" {
			known[object.GetName()] = &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Labels: object.GetLabels()}}
		}
	}
	for _, d := range below {
		unlisted = unlisted || slices.ContainsFunc(d.Missing, func(gap dump.Gap) bool { return gap.Resource == "namespaces" })
		for _, namespace := range d.Namespaces {
			known[namespace.Name] = namespace
		}
	}
	return func(name string) *v1.Namespace {
		if known[name] == nil && unlisted {
			return allowsAdmin(name)
		}
		return known[name]
	}
}
