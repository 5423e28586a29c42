// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

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
	// ignored are objects that are not read, known those of manifests that a dump
	// has, too.
	ignored, known []string
}

// position is where an object is in the files: in an object of its own, below a path
// of a dump or, for a pod, in the template of a workload that makes it.
type position struct {
	in       *manifest.Object
	path     string
	template bool
}

// field is the path of an object's field in what the files have.
func (p position) field(name string) string {
	if p.template {
		return "spec.template." + name
	}
	return p.path + name
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
// is wrong, and the context's where that ends first.
func load(ctx context.Context, stdin io.Reader, paths []string, namespace string) (*files, error) {
	set, err := readManifests(ctx, stdin, paths)
	if err != nil {
		return nil, err
	}
	f := &files{dump: dump.New(), sources: map[string]position{}}
	dumps := dump.New()
	var mistakes manifest.Errors
	for _, object := range set.Objects {
		if err := f.add(object, dumps, namespace); err != nil {
			var own *manifest.Error
			if !errors.As(err, &own) {
				own = object.Errorf("", "%v", err)
			}
			mistakes = append(mistakes, own)
		}
	}
	if len(mistakes) == 0 {
		mistakes = append(f.twice(f.dump), f.twice(dumps)...)
	}
	if len(mistakes) > 0 {
		mistakes.Sort()
		return nil, &exitError{exitBadInput, mistakes}
	}
	f.known = f.above(dumps)
	return f, nil
}

// readManifests reads until the context ends: standard input and pipes may never
// end.
func readManifests(ctx context.Context, stdin io.Reader, paths []string) (*manifest.Set, error) {
	type result struct {
		set *manifest.Set
		err error
	}
	done := make(chan result, 1)
	go func() {
		set, err := manifest.Load(stdin, paths...)
		done <- result{set, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		if r.err != nil {
			return nil, &exitError{exitBadInput, r.err}
		}
		if len(r.set.Objects) == 0 {
			return nil, badInput("%s: there are no objects in it, want a dump or manifests", strings.Join(paths, ", "))
		}
		return r.set, checkEmpty(paths)
	}
}

// checkEmpty refuses files without content: what was to write them has failed.
func checkEmpty(paths []string) error {
	for _, path := range paths {
		if info, err := os.Stat(path); path != "-" && err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return badInput("%s: is empty, want a dump or manifests", path)
		}
	}
	return nil
}

func (f *files) add(object *manifest.Object, dumps *dump.Dump, namespace string) error {
	gvk := object.GroupVersionKind()
	ours := strings.HasPrefix(object.GetAPIVersion(), "kerf.dev/")
	for field, name := range map[string]string{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()} {
		if name != oneLine(name) {
			return object.Errorf(field, "%q cannot be a name", name)
		}
	}
	switch {
	case gvk.Kind == dump.Kind && ours:
		return f.addDump(object, dumps)
	case ours:
		return object.Errorf("kind", "kerf reads no %s, want %s", gvk.Kind, dump.Kind)
	case gvk.Kind == dump.Kind && !scheme.Scheme.IsGroupRegistered(gvk.Group):
		return object.Errorf("apiVersion", "is %s, this version of kerf reads dumps of %s", object.GetAPIVersion(), dump.APIVersion)
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
	if id := identity("Pod", pod.Namespace, pod.Name); f.sources[id].path == "" { // else a dump has it
		f.sources[id] = position{in: object, template: object.GetKind() != "Pod"}
	}
	f.dump.Pods = append(f.dump.Pods, pod)
	f.listed = append(f.listed, pod)
}

func (f *files) addDump(object *manifest.Object, to *dump.Dump) error {
	if version := object.GetAPIVersion(); version != dump.APIVersion {
		return object.Errorf("apiVersion", "is %s, this version of kerf reads %s", version, dump.APIVersion)
	}
	d, err := decodeDump(object)
	if err != nil {
		return err
	}
	to.Merge(d)
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
		f.sources[identity(kind, o.GetNamespace(), o.GetName())] = position{in: in, path: fmt.Sprintf("%s[%d].", list, i)}
	}
}
