// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/sandbox/manifest"
)

// files is what was read from files.
type files struct {
	// dump has everything, with a pod for each replica of a workload.
	dump *dump.Dump
	// listed are the pods of manifests, in order; those of dumps are not among
	// them.
	listed  []*v1.Pod
	sources map[string]position
	ignored []string
}

// position is where an object is in the files: in an object of its own, or below
// a path of a dump.
type position struct {
	in   *manifest.Object
	path string
}

// kinds are those that a dump has, with the resource versions that are read.
var kinds = map[schema.GroupVersionKind]bool{
	{Version: "v1", Kind: "Namespace"}:                                       true,
	{Version: "v1", Kind: "Node"}:                                            true,
	{Version: "v1", Kind: "Pod"}:                                             true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}:           true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}:         true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule"}:       true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}:         true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}: true,
}

// load reads dumps and manifests. The error is manifest.Errors where the content
// is wrong.
func load(stdin io.Reader, paths []string, namespace string) (*files, error) {
	set, err := manifest.Load(stdin, paths...)
	if err != nil {
		return nil, &exitError{exitBadInput, err}
	}
	f := &files{dump: dump.New(), sources: map[string]position{}}
	var mistakes manifest.Errors
	for _, object := range set.Objects {
		if err := f.add(object, namespace); err != nil {
			var own *manifest.Error
			if !errors.As(err, &own) {
				own = object.Errorf("", "%v", err)
			}
			mistakes = append(mistakes, own)
		}
	}
	if len(mistakes) == 0 {
		mistakes = f.twice()
	}
	if len(mistakes) > 0 {
		mistakes.Sort()
		return nil, &exitError{exitBadInput, mistakes}
	}
	return f, nil
}

func (f *files) add(object *manifest.Object, namespace string) error {
	gvk := object.GroupVersionKind()
	switch {
	case gvk.Kind == dump.Kind && strings.HasPrefix(object.GetAPIVersion(), "kerf.dev/"):
		return f.addDump(object)
	case kinds[gvk]:
		return f.addObject(object, namespace)
	case gvk.Group == "resource.k8s.io" && kinds[gvk.GroupKind().WithVersion("v1")]:
		return object.Errorf("apiVersion", "is %s, kerf reads resource.k8s.io/v1; get the object from a cluster again, or convert it", object.GetAPIVersion())
	case object.MakesPods():
		return f.addWorkload(object, namespace)
	case !scheme.Scheme.Recognizes(gvk) && scheme.Scheme.IsGroupRegistered(gvk.Group):
		return object.Errorf("kind", "there is no kind %s in %s", gvk.Kind, object.GetAPIVersion())
	case !scheme.Scheme.Recognizes(gvk):
		f.ignored = append(f.ignored, object.Describe())
	}
	return nil
}

func (f *files) addObject(object *manifest.Object, namespace string) error {
	f.defaultNamespace(object, namespace)
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return err
	}
	if pod, ok := typed.(*v1.Pod); ok {
		f.addPod(object, pod)
		return nil
	}
	f.sources[object.Describe()] = position{in: object}
	return f.dump.Add(typed)
}

// defaultNamespace is needed for kinds that have one; it harms no other.
func (f *files) defaultNamespace(object *manifest.Object, namespace string) {
	switch object.GetKind() {
	case "Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule":
		object.SetNamespace("")
	default:
		if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
	}
}

// addPod adds a pod that a manifest has or stands for.
func (f *files) addPod(object *manifest.Object, pod *v1.Pod) {
	f.sources[fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)] = position{in: object}
	f.dump.Pods = append(f.dump.Pods, pod)
	f.listed = append(f.listed, pod)
}

func (f *files) addDump(object *manifest.Object) error {
	if version := object.GetAPIVersion(); version != dump.APIVersion {
		return object.Errorf("apiVersion", "is %s, this version of kerf reads %s", version, dump.APIVersion)
	}
	d, err := decodeDump(object)
	if err != nil {
		return err
	}
	f.dump.Merge(d)
	place(f, object, "namespaces", "Namespace", d.Namespaces)
	place(f, object, "nodes", "Node", d.Nodes)
	place(f, object, "deviceClasses", "DeviceClass", d.DeviceClasses)
	place(f, object, "resourceSlices", "ResourceSlice", d.ResourceSlices)
	place(f, object, "deviceTaintRules", "DeviceTaintRule", d.DeviceTaintRules)
	place(f, object, "resourceClaimTemplates", "ResourceClaimTemplate", d.ResourceClaimTemplates)
	place(f, object, "resourceClaims", "ResourceClaim", d.ResourceClaims)
	place(f, object, "pods", "Pod", d.Pods)
	return nil
}

// place notes where the objects of a dump are.
func place[T interface {
	GetName() string
	GetNamespace() string
}](f *files, in *manifest.Object, list, kind string, objects []T) {
	for i, o := range objects {
		name := o.GetName()
		if o.GetNamespace() != "" {
			name = o.GetNamespace() + "/" + name
		}
		f.sources[kind+" "+name] = position{in: in, path: fmt.Sprintf("%s[%d].", list, i)}
	}
}

// decodeDump decodes strictly. A value of the wrong type is found by decoding the
// entries one by one.
func decodeDump(object *manifest.Object) (*dump.Dump, error) {
	d := &dump.Dump{}
	strict, err := decodeInto(object.Object, d)
	if err != nil {
		return nil, wrongEntry(object, err)
	}
	for _, problem := range strict {
		var field kjson.FieldError
		if errors.As(problem, &field) {
			return nil, object.Errorf(field.FieldPath(), "unknown field in a dump of %s", dump.APIVersion)
		}
		return nil, object.Errorf("", "%v", problem)
	}
	return d, checkEntries(object)
}

func decodeInto(content any, into any) (strict []error, err error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(text, into)
}

// wrongEntry names the entry of a dump that cannot be decoded.
func wrongEntry(object *manifest.Object, err error) error {
	for _, list := range slices.Sorted(maps.Keys(object.Object)) {
		entries, ok := object.Object[list].([]any)
		if !ok {
			continue
		}
		for i, entry := range entries {
			single := map[string]any{list: []any{entry}}
			if _, err := decodeInto(single, &dump.Dump{}); err != nil {
				return object.Errorf(fmt.Sprintf("%s[%d]", list, i), "%v; correct or remove the entry", err)
			}
		}
	}
	return object.Errorf("", "%v", err)
}

// checkEntries finds entries that are empty or have no name.
func checkEntries(object *manifest.Object) error {
	for _, list := range slices.Sorted(maps.Keys(object.Object)) {
		entries, ok := object.Object[list].([]any)
		if !ok {
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
			}
		}
	}
	return nil
}

// twice finds objects that are in several files or dumps.
func (f *files) twice() manifest.Errors {
	var mistakes manifest.Errors
	seen := map[string]bool{}
	check := func(kind, namespace, name string) {
		id := kind + " " + name
		if namespace != "" {
			id = kind + " " + namespace + "/" + name
		}
		if seen[id] {
			at := f.sources[id]
			mistakes = append(mistakes, at.in.Errorf(at.path+"metadata.name", "%s is in the input twice; leave one of them out", id))
		}
		seen[id] = true
	}
	for _, o := range f.dump.Nodes {
		check("Node", "", o.Name)
	}
	for _, o := range f.dump.DeviceClasses {
		check("DeviceClass", "", o.Name)
	}
	for _, o := range f.dump.ResourceSlices {
		check("ResourceSlice", "", o.Name)
	}
	for _, o := range f.dump.DeviceTaintRules {
		check("DeviceTaintRule", "", o.Name)
	}
	for _, o := range f.dump.ResourceClaimTemplates {
		check("ResourceClaimTemplate", o.Namespace, o.Name)
	}
	for _, o := range f.dump.ResourceClaims {
		check("ResourceClaim", o.Namespace, o.Name)
	}
	for _, o := range f.dump.Pods {
		check("Pod", o.Namespace, o.Name)
	}
	return mistakes
}
