// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"

	"kerf.dev/kerf/document"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
)

// decodeDump decodes strictly. A value of the wrong type is found by decoding the
// entries one by one.
func decodeDump(object *manifest.Object) (*dump.Dump, error) {
	d := &dump.Dump{}
	strict, err := document.Decode(object.Object, d)
	if err != nil {
		return nil, wrongEntry(object, err)
	}
	if len(strict) > 0 {
		var field kjson.FieldError
		if errors.As(strict[0], &field) {
			return nil, object.Errorf(field.FieldPath(), "unknown field in a dump of %s", dump.APIVersion)
		}
		return nil, object.Errorf("", "%v", strict[0])
	}
	if d.Unfinished() {
		return nil, object.Errorf("end", "is missing: %s", dump.CutOffProblem)
	}
	return d, checkEntries(object)
}

// wrongEntry names the field of a dump that cannot be decoded.
func wrongEntry(object *manifest.Object, problem error) error {
	for _, list := range slices.Sorted(maps.Keys(object.Object)) {
		entries, ok := object.Object[list].([]any)
		if !ok {
			continue
		}
		for i, entry := range entries {
			single := map[string]any{list: []any{entry}}
			if _, err := document.Decode(single, &dump.Dump{}); err != nil {
				return wrongField(object, list, i, err)
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(object.Object)) {
		if _, err := document.Decode(map[string]any{field: object.Object[field]}, &dump.Dump{}); err != nil {
			return object.Errorf(field, "is of the wrong type; see the format of a dump")
		}
	}
	return object.Errorf("", "%v", problem)
}

// wrongField reads an entry as a manifest, of which every field has a name.
func wrongField(object *manifest.Object, list string, i int, problem error) error {
	at := fmt.Sprintf("%s[%d]", list, i)
	content, ok := object.Object[list].([]any)[i].(map[string]any)
	if !ok {
		return object.Errorf(at, "is not an object; correct or remove the entry")
	}
	content = maps.Clone(content)
	for gvk := range kinds {
		if listOf(gvk.Kind) == list {
			content["apiVersion"], content["kind"] = gvk.GroupVersion().String(), gvk.Kind
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return object.Errorf(at, "%v", err)
	}
	var mistakes manifest.Errors
	if _, err := manifest.Parse("", bytes.NewReader(text)); errors.As(err, &mistakes) {
		return object.Errorf(at+"."+mistakes[0].Field, "%s", mistakes[0].Problem)
	}
	return object.Errorf(at, "%v; correct or remove the entry", problem)
}

// checkEntries finds entries that are empty or have no name.
func checkEntries(object *manifest.Object) error {
	for _, list := range slices.Sorted(maps.Keys(object.Object)) {
		entries, ok := object.Object[list].([]any)
		if !ok || list == "missing" {
			continue
		}
		for i, entry := range entries {
			content, ok := entry.(map[string]any)
			if !ok {
				return object.Errorf(fmt.Sprintf("%s[%d]", list, i), "is empty, want an object; remove the entry")
			}
			meta, ok := content["metadata"].(map[string]any)
			if name, named := meta["name"].(string); !ok || !named || name == "" {
				return object.Errorf(fmt.Sprintf("%s[%d].metadata.name", list, i), "is missing")
			} else if name != oneLine(name) {
				return object.Errorf(fmt.Sprintf("%s[%d].metadata.name", list, i), "%q cannot be a name", name)
			}
		}
	}
	return nil
}
