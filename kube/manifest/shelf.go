// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric/redfish/description"
)

// Shelf is a document that describes a shelf of devices as kerf-redfish reads it. It
// is no object of the API server.
type Shelf struct {
	description.Config

	Source Source
}

// isShelf tells a shelf from an object: it has hosts and blocks, and no kind.
func isShelf(content map[string]any) bool {
	_, isObject := content["kind"]
	_, isVersioned := content["apiVersion"]
	_, hosts := content["hosts"]
	_, blocks := content["blocks"]
	return !isObject && !isVersioned && hosts && blocks
}

// stock takes a shelf in.
func (l *loader) stock(doc part) Errors {
	if l.shelf != nil {
		return Errors{{Source: doc.Source, Problem: fmt.Sprintf("is a second shelf: there is one in %s:%d, and a sandbox has one", l.shelf.Source.File, l.shelf.Source.Line)}}
	}
	config, err := description.ParseConfig(doc.text)
	if err != nil {
		return Errors{{Source: doc.Source, Problem: "is a shelf, see kerf-redfish: " + err.Error()}}
	}
	l.shelf = &Shelf{Config: config, Source: doc.Source}
	return nil
}

// ofFabric tells whether a kind is one that a sandbox defines when it is asked for.
func ofFabric(gvk schema.GroupVersionKind) bool {
	return gvk.GroupVersion() == v1alpha1.SchemeGroupVersion && (gvk.Kind == FabricKind || gvk.Kind == "DeviceAttachment")
}

// FabricKind is the kind of objects that need a fabric.
const FabricKind = "Fabric"

// NeedsFabric reports whether the set needs what a sandbox runs for fabrics.
func (s *Set) NeedsFabric() bool {
	if s.Shelf != nil {
		return true
	}
	for _, object := range s.Objects {
		if ofFabric(object.GroupVersionKind()) {
			return true
		}
	}
	return false
}
