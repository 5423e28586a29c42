// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/document"
	"kerf.dev/kerf/dump"
)

// Set is all objects of the input, in the order in which to create them.
type Set struct {
	Objects []*Object
	// Shelf describes a shelf of devices for a fabric, nil if the input has none.
	Shelf *Shelf
}

// extensions of files that are read from a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// Load reads files and directories, for objects that are to be created; "-" is stdin. The
// error is Errors or says which path cannot be read.
func Load(stdin io.Reader, paths ...string) (*Set, error) {
	return load(stdin, paths, (*Object).dropServerFields)
}

// LoadStored is Load for objects as they are in a cluster: it keeps what a server set.
func LoadStored(stdin io.Reader, paths ...string) (*Set, error) {
	return load(stdin, paths, func(*Object) {})
}

func load(stdin io.Reader, paths []string, reduce func(*Object)) (*Set, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	loader := &loader{most: document.MaxSize, reduce: reduce}
	for _, file := range files {
		if file == "-" {
			err = loader.read(file, stdin)
		} else {
			err = loader.open(file)
		}
		if err != nil {
			return nil, err
		}
	}
	return loader.finish()
}

// Parse reads manifests from a reader; the name stands for it in errors, which
// are Errors.
func Parse(name string, r io.Reader) (*Set, error) {
	loader := &loader{most: document.MaxSize, reduce: (*Object).dropServerFields}
	if err := loader.read(name, r); err != nil {
		return nil, err
	}
	return loader.finish()
}

// expand replaces directories by the manifests in them.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		if path == "-" {
			files = append(files, path)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, Errors{{Source: Source{File: path}, Problem: reason(err)}}
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, Errors{{Source: Source{File: path}, Problem: reason(err)}}
		}
		found := false
		for _, entry := range entries {
			if entry.IsDir() || !slices.Contains(extensions, filepath.Ext(entry.Name())) {
				continue
			}
			file := filepath.Join(path, entry.Name())
			// Who names a pipe means to read it; one in a directory may never end.
			if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
				return nil, Errors{{Source: Source{File: file}, Problem: "is not a regular file; move it elsewhere"}}
			}
			files = append(files, file)
			found = true
		}
		if !found {
			return nil, Errors{{Source: Source{File: path}, Problem: "the directory has no *.yaml, *.yml or *.json"}}
		}
	}
	return files, nil
}

// reason is an error of the file system without the path.
func reason(err error) string {
	var failed *os.PathError
	if errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}

// loader collects objects and mistakes.
type loader struct {
	objects  []*Object
	shelf    *Shelf
	problems Errors
	most     int64 // bytes of a file
	// reduce takes away what is not wanted of an object.
	reduce func(*Object)
}

func (l *loader) open(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return Errors{{Source: Source{File: path}, Problem: reason(err)}}
	}
	return errors.Join(l.read(path, file), file.Close())
}

func (l *loader) read(name string, r io.Reader) error {
	content, err := io.ReadAll(io.LimitReader(r, l.most+1))
	if err != nil {
		return Errors{{Source: Source{File: name}, Problem: reason(err)}}
	}
	if int64(len(content)) > l.most {
		return Errors{{Source: Source{File: name}, Problem: fmt.Sprintf("has more than %d bytes; split it", l.most)}}
	}
	documents, err := split(name, content)
	var problems Errors
	if errors.As(err, &problems) {
		l.problems = append(l.problems, problems...)
	}
	for _, doc := range documents {
		objects, problems := l.decode(doc)
		l.objects = append(l.objects, objects...)
		l.problems = append(l.problems, problems...)
	}
	return nil
}

// finish checks the objects against each other and sorts them.
func (l *loader) finish() (*Set, error) {
	l.checkNames()
	if err := l.problems.orNil(); err != nil {
		return nil, err
	}
	for _, object := range l.objects {
		l.reduce(object)
	}
	slices.SortStableFunc(l.objects, func(a, b *Object) int {
		return cmp.Compare(rank(a.GetKind()), rank(b.GetKind()))
	})
	return &Set{Objects: l.objects, Shelf: l.shelf}, nil
}

// CheckComplete finds objects that need something which is not in the set and
// not in an empty cluster: the definition of a custom kind, or a namespace. The
// error is Errors.
func (s *Set) CheckComplete() error {
	var problems Errors
	kinds, namespaces := s.defined()
	for _, object := range s.Objects {
		gvk := object.GroupVersionKind()
		if !scheme.Recognizes(gvk) && !kinds[gvk.GroupKind()] && !ofFabric(gvk) {
			problems = append(problems, unknownKind(object, gvk))
		}
		if name := object.GetNamespace(); !clusterScoped[gvk.Kind] && name != "" && !namespaces[name] {
			problems = append(problems, object.Errorf("metadata.namespace", "there is no Namespace %s in the input", name))
		}
	}
	problems.Sort()
	return problems.orNil()
}

// defined are the custom kinds that the set defines and the namespaces that
// will exist.
func (s *Set) defined() (kinds map[schema.GroupKind]bool, namespaces map[string]bool) {
	kinds, namespaces = map[schema.GroupKind]bool{}, map[string]bool{}
	for _, name := range existingNamespaces {
		namespaces[name] = true
	}
	for _, object := range s.Objects {
		switch object.GetKind() {
		case "Namespace":
			namespaces[object.GetName()] = true
		case "CustomResourceDefinition":
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return kinds, namespaces
}

func unknownKind(object *Object, gvk schema.GroupVersionKind) *Error {
	if versions := versionsOf(gvk.Kind); len(versions) > 0 {
		return object.Errorf("apiVersion", "there is no %s in %s, use %s", gvk.Kind, gvk.GroupVersion(), strings.Join(versions, " or "))
	}
	if gvk.GroupVersion().String() == dump.APIVersion && gvk.Kind == dump.Kind {
		return object.Errorf("kind", "a dump is for kerf, not for a cluster: use kerf simulate -f")
	}
	return object.Errorf("kind", "there is no kind %s in %s, and no CustomResourceDefinition for it in the input", gvk.Kind, gvk.GroupVersion())
}

var stableVersion = regexp.MustCompile(`^v[0-9]+$`)

// versionsOf are the group versions that have a kind of that name: the stable
// ones if there are any.
func versionsOf(kind string) []string {
	var stable, others []string
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Kind != kind || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if stableVersion.MatchString(gvk.Version) {
			stable = append(stable, gvk.GroupVersion().String())
		} else {
			others = append(others, gvk.GroupVersion().String())
		}
	}
	versions := stable
	if len(stable) == 0 {
		versions = others
	}
	slices.Sort(versions)
	return versions
}

// existingNamespaces are in every cluster.
var existingNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// checkNames finds objects without a name or with the name of another one.
func (l *loader) checkNames() {
	first := map[string]*Object{}
	for _, object := range l.objects {
		if object.GetName() == "" {
			if object.GetGenerateName() == "" {
				l.problems = append(l.problems, object.Errorf("metadata.name", "is missing"))
			}
			continue
		}
		id := fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(),
			cmp.Or(object.GetNamespace(), metav1.NamespaceDefault), object.GetName())
		if other, twice := first[id]; twice {
			l.problems = append(l.problems, object.Errorf("metadata.name", "the object is also in %s:%d", other.Source.File, other.Source.Line))
			continue
		}
		first[id] = object
	}
}
