// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/document"
)

// Kind is a kind of API objects that stories know.
type Kind struct {
	// Word is the story's word for it, Name the API's.
	Word, Name string
	APIVersion string
	Namespaced bool

	empty func() Object
}

// kinds in the order in which a reader would mention them.
var kinds = []Kind{
	{"namespace", "Namespace", "v1", false, func() Object { return &v1.Namespace{} }},
	{"node", "Node", "v1", false, func() Object { return &v1.Node{} }},
	{"slice", "ResourceSlice", resourceVersion, false, func() Object { return &resourceapi.ResourceSlice{} }},
	{"class", "DeviceClass", resourceVersion, false, func() Object { return &resourceapi.DeviceClass{} }},
	{"taint", "DeviceTaintRule", resourceVersion, false, func() Object { return &resourceapi.DeviceTaintRule{} }},
	{"claim", "ResourceClaim", resourceVersion, true, func() Object { return &Claim{} }},
	{"template", "ResourceClaimTemplate", resourceVersion, true, func() Object { return &resourceapi.ResourceClaimTemplate{} }},
	{"pod", "Pod", "v1", true, func() Object { return &v1.Pod{} }},
}

var resourceVersion = resourceapi.SchemeGroupVersion.String()

// KindOf returns the kind of an object. Kinds that stories do not know have the
// object's own name and no word.
func KindOf(o Object) Kind {
	gvk := o.GetObjectKind().GroupVersionKind()
	for _, k := range kinds {
		if k.Name == gvk.Kind && k.APIVersion == gvk.GroupVersion().String() {
			return k
		}
	}
	return Kind{Name: gvk.Kind, APIVersion: gvk.GroupVersion().String(), Namespaced: o.GetNamespace() != ""}
}

func kindByWord(w string) (Kind, error) {
	var words []string
	for _, k := range kinds {
		if k.Word == w {
			return k, nil
		}
		words = append(words, k.Word)
	}
	return Kind{}, fmt.Errorf("no kind %q; there are: %s", w, strings.Join(words, " "))
}

// complete sets kind and namespace of an object.
func complete(k Kind, o Object) Object {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.APIVersion, k.Name))
	if k.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(Namespace)
	}
	return o
}

// Decode reads a YAML file of one or more API objects. The error names the file,
// the document and the field.
func Decode(file string, text []byte) ([]Object, error) {
	var objects []Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for document := 1; ; document++ {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, document, err)
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		o, err := decodeObject(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, document, err)
		}
		objects = append(objects, o)
	}
}

func decodeObject(raw []byte) (Object, error) {
	var meta struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	read, err := document.Read(raw)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		return nil, err
	}
	if meta.Kind == "" || meta.APIVersion == "" || meta.Name == "" {
		return nil, fmt.Errorf("apiVersion, kind and metadata.name must be set")
	}
	for _, k := range kinds {
		if k.Name != meta.Kind || k.APIVersion != meta.APIVersion {
			continue
		}
		o := k.empty()
		if faults := read.Check(o); len(faults) > 0 {
			return nil, fmt.Errorf("%s %s: %w", k.Name, meta.Name, faults[0])
		}
		if err := yaml.UnmarshalStrict(raw, o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", k.Name, meta.Name, err)
		}
		return complete(k, o), nil
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &o.Object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", meta.Kind, meta.Name, err)
	}
	return o, nil
}
