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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	compoundv1alpha1 "kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/rules"
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
	// fabrics are those of manifests, by name.
	fabrics []string
	// hidden counts objects that an API server refuses, and that are not to be named.
	hidden int
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
	{Version: "v1", Kind: "ResourceQuota"}:                                   true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}:           true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}:         true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule"}:       true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}:         true,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}: true,
}

// load takes dumps and manifests apart, for a cluster with the namespaces of what is
// below. What an API server refuses is wrong, but for objects of namespaces that are not
// visible, which are left out. The error is manifest.Errors where the content is wrong,
// and the context's where that ends first.
func load(ctx context.Context, set *manifest.Set, namespace string, below *dump.Dump, visible func(namespace string) bool) (*files, error) {
	f := &files{dump: dump.New(), sources: map[string]position{}}
	dumps := dump.New()
	mistakes := f.addEach(set, isDump, func(object *manifest.Object) error { return f.addDump(object, dumps) })
	server, err := rules.New(namespacesIn(set, dumps, below))
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	mistakes = append(mistakes, f.addEach(set, isManifest, func(object *manifest.Object) error {
		if ctx.Err() != nil {
			return nil
		}
		err := f.add(ctx, server, object, namespace)
		if errors.As(err, new(manifest.Errors)) && !visible(object.GetNamespace()) {
			f.hidden++
			return nil
		}
		return err
	})...)
	if err := ctx.Err(); err != nil {
		return nil, err
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

// addEach adds the objects that are meant, and returns what is wrong with them.
func (f *files) addEach(set *manifest.Set, meant func(*manifest.Object) bool, add func(*manifest.Object) error) manifest.Errors {
	var mistakes manifest.Errors
	for _, object := range set.Objects {
		if !meant(object) {
			continue
		}
		err := add(object)
		var one *manifest.Error
		var several manifest.Errors
		switch {
		case err == nil:
		case errors.As(err, &several):
			mistakes = append(mistakes, several...)
		case errors.As(err, &one):
			mistakes = append(mistakes, one)
		default:
			mistakes = append(mistakes, object.Errorf("", "%v", err))
		}
	}
	return mistakes
}

func isDump(object *manifest.Object) bool { return object.GetKind() == dump.Kind && isOurs(object) }

func isManifest(object *manifest.Object) bool { return !isDump(object) }

func isOurs(object *manifest.Object) bool {
	return strings.HasPrefix(object.GetAPIVersion(), "kerf.dev/")
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
		set, err := manifest.LoadStored(stdin, paths...)
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

func (f *files) add(ctx context.Context, server *rules.Rules, object *manifest.Object, namespace string) error {
	gvk := object.GroupVersionKind()
	for field, name := range map[string]string{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()} {
		if name != oneLine(name) {
			return object.Errorf(field, "%q cannot be a name", name)
		}
	}
	switch {
	case gvk == v1alpha1.SchemeGroupVersion.WithKind(manifest.FabricKind):
		f.fabrics = append(f.fabrics, object.GetName())
	case gvk == manifest.PolicyKind:
		return f.addPolicy(object)
	case isOurs(object):
		return object.Errorf("kind", "kerf reads no %s, want %s", gvk.Kind, dump.Kind)
	case gvk.Kind == dump.Kind && !scheme.Scheme.IsGroupRegistered(gvk.Group):
		return object.Errorf("apiVersion", "is %s, this version of kerf reads dumps of %s", object.GetAPIVersion(), dump.APIVersion)
	case kinds[gvk]:
		return f.addObject(ctx, server, object, namespace)
	case gvk.Group == "resource.k8s.io" && kinds[gvk.GroupKind().WithVersion("v1")]:
		return object.Errorf("apiVersion", "is %s, kerf reads resource.k8s.io/v1; get the object from a cluster again, or convert it", object.GetAPIVersion())
	case object.MakesPods():
		return f.addWorkload(ctx, server, object, namespace)
	case !scheme.Scheme.Recognizes(gvk) && scheme.Scheme.IsGroupRegistered(gvk.Group):
		return object.Errorf("kind", "there is no kind %s in %s", gvk.Kind, object.GetAPIVersion())
	case !scheme.Scheme.Recognizes(gvk):
		f.ignored = append(f.ignored, object.Describe())
	}
	return nil
}

// addObject adds an object as an API server would have it; the error is its refusal.
func (f *files) addObject(ctx context.Context, server *rules.Rules, object *manifest.Object, namespace string) error {
	f.defaultNamespace(object, namespace)
	typed, err := server.Admit(ctx, object)
	if err != nil {
		return err
	}
	switch o := typed.(type) {
	case *v1.Pod:
		f.addPod(object, o)
		return nil
	case *v1.Node:
		nameHost(o)
	}
	f.sources[object.Describe()] = position{in: object}
	return f.dump.Add(typed)
}

// addPolicy adds a CompoundPolicy, which kerf lint judges.
func (f *files) addPolicy(object *manifest.Object) error {
	policy := &compoundv1alpha1.CompoundPolicy{}
	object.SetNamespace("")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
		return err
	}
	f.sources[object.Describe()] = position{in: object}
	return f.dump.Add(policy)
}

// nameHost gives a node the label that its kubelet gives it.
func nameHost(node *v1.Node) {
	if _, found := node.Labels[v1.LabelHostname]; !found {
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1.LabelHostname, node.Name)
	}
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
	list, i := "", 0
	for o := range d.All {
		kind := cluster.KindOf(o)
		if of := listOf(kind); of != list {
			list, i = of, 0
		}
		f.sources[identity(kind, o.GetNamespace(), o.GetName())] = position{in: object, path: fmt.Sprintf("%s[%d].", list, i)}
		i++
	}
	return nil
}

// listOf is the field of a dump that has the objects of a kind.
func listOf(kind string) string {
	plural := "s"
	if stem, found := strings.CutSuffix(kind, "y"); found {
		kind, plural = stem, "ies"
	} else if strings.HasSuffix(kind, plural) {
		plural = "es"
	}
	return strings.ToLower(kind[:1]) + kind[1:] + plural
}
