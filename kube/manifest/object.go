// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is one object of the input, as it is to be sent to the server.
type Object struct {
	*unstructured.Unstructured
	// Source is where the object starts.
	Source    Source
	positions positions
}

// Describe is "Kind namespace/name", as far as the object has them.
func (o *Object) Describe() string {
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	if namespace := o.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	if name == "" {
		return o.GetKind()
	}
	return o.GetKind() + " " + name
}

// Errorf returns a mistake in that field of the object, "" for the whole object.
func (o *Object) Errorf(field, format string, args ...any) *Error {
	source := o.Source
	if field != "" {
		source.Line = o.positions.line(field)
	}
	return &Error{Source: source, Object: o.Describe(), Field: field, Problem: fmt.Sprintf(format, args...)}
}

// serverFields are the metadata that only a server sets.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink"}

// keptStatus are the kinds whose status is a part of the input: what a node has,
// and which devices a claim already holds.
var keptStatus = map[string]bool{"Node": true, "ResourceClaim": true}

// dropServerFields removes what the server that once returned the object set.
func (o *Object) dropServerFields() {
	for _, field := range serverFields {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if !keptStatus[o.GetKind()] {
		unstructured.RemoveNestedField(o.Object, "status")
	}
}
