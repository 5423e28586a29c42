// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"slices"
	"strings"
)

// Refusal is what an API server says against an object. Lint does not know the rules of
// Kubernetes by itself: whoever calls it asks those who do.
type Refusal struct {
	Kind, Namespace, Name string
	// Field is empty for the object as a whole.
	Field   string
	Problem string
}

// checkRefused reports what an API server refuses, unless an error says more of the same
// field: what follows from it.
func (c *checker) checkRefused(refusals []Refusal) {
	errors := map[string][]string{} // object -> fields
	for i := range c.findings {
		if f := &c.findings[i]; f.Level == Error {
			errors[f.Object()] = append(errors[f.Object()], f.Field)
		}
	}
	for _, r := range refusals {
		s := subject{c, Finding{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}}
		field := cmp.Or(r.Field, "metadata")
		if slices.ContainsFunc(errors[s.of.Object()], func(of string) bool { return isWithin(field, of) }) {
			continue
		}
		s.report(Error, "refused", field, "correct the field; the object cannot be created anew as it is", "an API server of this version refuses it: %s", r.Problem)
	}
}

// isWithin reports whether a field is another one, or a part of it.
func isWithin(field, other string) bool {
	rest, found := strings.CutPrefix(field, other)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// refusedObjects are those that an API server refuses.
func refusedObjects(refusals []Refusal) map[string]bool {
	objects := map[string]bool{}
	for _, r := range refusals {
		objects[(&Finding{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}).Object()] = true
	}
	return objects
}
