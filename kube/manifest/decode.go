// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	compoundv1alpha1 "kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/document"
	"kerf.dev/kerf/dump"
)

// scheme has all kinds whose fields are known.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
}()

// decode parses one document into its objects, or into a shelf.
func (l *loader) decode(doc part) ([]*Object, Errors) {
	if dump.CutOff(doc.text) {
		return nil, Errors{{Source: doc.Source, Object: dump.Kind, Problem: dump.CutOffProblem}}
	}
	read, err := document.Read(doc.text)
	if err != nil {
		return nil, Errors{unreadable(doc, err)}
	}
	positions := positions{first: doc.Line, lines: read.Lines}
	content, ok := read.Content.(map[string]any)
	if !ok {
		source := doc.Source
		source.Line = positions.start()
		return nil, Errors{{Source: source, Problem: fmt.Sprintf("is %s, want an object with apiVersion and kind", typeName(read.Content))}}
	}
	if isShelf(content) {
		doc.Line = positions.start()
		return nil, l.stock(doc)
	}
	return decodeContent(doc.Source, positions, content)
}

// decodeContent makes objects of parsed content; a list makes several.
func decodeContent(source Source, positions positions, content map[string]any) ([]*Object, Errors) {
	source.Line = positions.start()
	object := &Object{Unstructured: &unstructured.Unstructured{Object: content}, Source: source, positions: positions}
	for _, field := range []string{"apiVersion", "kind"} {
		if text, ok := content[field].(string); !ok || text == "" {
			return nil, Errors{object.Errorf(field, "is missing, want the %s of a Kubernetes object", field)}
		}
	}
	if items, ok := content["items"].([]any); ok && strings.HasSuffix(object.GetKind(), "List") {
		return decodeItems(source, positions, items)
	}
	if problems := object.check(); len(problems) > 0 {
		return nil, problems
	}
	return []*Object{object}, nil
}

func decodeItems(source Source, positions positions, items []any) ([]*Object, Errors) {
	var objects []*Object
	var problems Errors
	for i, item := range items {
		field := fmt.Sprintf("items[%d]", i)
		content, ok := item.(map[string]any)
		if !ok {
			source.Line = positions.line(field)
			problems = append(problems, &Error{Source: source, Field: field, Problem: fmt.Sprintf("is %s, want an object", typeName(item))})
			continue
		}
		decoded, wrong := decodeContent(source, positions.at(field), content)
		objects = append(objects, decoded...)
		problems = append(problems, wrong...)
	}
	return objects, problems
}

// check decodes the object strictly, if its kind is known.
func (o *Object) check() Errors {
	gvk := o.GroupVersionKind()
	if gvk.Version == "" {
		return Errors{o.Errorf("apiVersion", "%q is not GROUP/VERSION", o.GetAPIVersion())}
	}
	if own := ownKinds[gvk]; own != nil {
		return o.uncountable(own) // The rest is up to the server, or to who reads dumps.
	}
	if !scheme.Recognizes(gvk) && gvk != PolicyKind {
		// A custom resource, perhaps; see Set.CheckComplete.
		return nil
	}
	typed, err := newTyped(gvk)
	if err != nil {
		return Errors{o.Errorf("kind", "%v", err)}
	}
	if problems := o.uncountable(typed); len(problems) > 0 {
		return problems
	}
	strict, err := document.Decode(o.Object, typed)
	if err != nil {
		return Errors{o.valueError(reflect.TypeOf(typed), err)}
	}
	var problems Errors
	for _, err := range strict {
		var field kjson.FieldError
		if errors.As(err, &field) {
			problems = append(problems, o.Errorf(field.FieldPath(), "unknown field in %s %s", gvk.GroupVersion(), gvk.Kind))
		} else {
			problems = append(problems, o.Errorf("", "%v", err))
		}
	}
	return problems
}

// PolicyKind is the kind of kerf's own that is read strictly: command lines decide about it
// without a server.
var PolicyKind = compoundv1alpha1.SchemeGroupVersion.WithKind("CompoundPolicy")

// newTyped is an empty object of a kind whose fields are known.
func newTyped(gvk schema.GroupVersionKind) (any, error) {
	if gvk == PolicyKind {
		return &compoundv1alpha1.CompoundPolicy{}, nil
	}
	return scheme.New(gvk)
}

// ownKinds are kerf's own, which are not in the scheme.
var ownKinds = map[schema.GroupVersionKind]any{
	v1alpha1.SchemeGroupVersion.WithKind(FabricKind):         &v1alpha1.Fabric{},
	v1alpha1.SchemeGroupVersion.WithKind("DeviceAttachment"): &v1alpha1.DeviceAttachment{},
	schema.FromAPIVersionAndKind(dump.APIVersion, dump.Kind): &dump.Dump{},
}

// uncountable finds the amounts that the decoder for this type must not see.
func (o *Object) uncountable(into any) Errors {
	var problems Errors
	for _, fault := range document.CheckContent(o.Object, o.positions.lines, into) {
		problems = append(problems, o.Errorf(fault.Field, "%s", fault.Problem))
	}
	return problems
}

// valueError describes a value that does not fit its field. The decoder does
// not say reliably which one it is, so it is found by decoding values alone.
func (o *Object) valueError(kind reflect.Type, problem error) *Error {
	// All that is around a value costs only what its path is long.
	fails := func(alone any) bool {
		_, err := document.Decode(alone, reflect.New(kind.Elem()).Interface())
		return err != nil && err.Error() == problem.Error()
	}
	path, value := culprit(o.Object, fails)
	var wrongType *json.UnmarshalTypeError
	message := problem.Error()
	if want := wantedType(problem); want != "" {
		message = fmt.Sprintf("is %s, want %s", typeName(value), want)
	} else if errors.As(problem, &wrongType) {
		message = fmt.Sprintf("is %s", typeName(value))
	} else {
		message = fmt.Sprintf("%s: %s", shown(value), message)
	}
	return o.Errorf(path, "%s", message)
}

// culprit returns the path of the smallest value that fails alone, and the value.
func culprit(value any, fails func(alone any) bool) (path string, found any) {
	around := func(alone any) any { return alone }
	for {
		step, below, wrap := blamed(value, func(alone any) bool { return fails(around(alone)) })
		if wrap == nil {
			return path, value
		}
		outer := around
		around = func(alone any) any { return outer(wrap(alone)) }
		path, value = step(path), below
	}
}

// blamed returns the value in an object or list that fails alone, how its path goes
// on, and what puts a value in its place; nothing if there is none.
func blamed(value any, fails func(alone any) bool) (step func(path string) string, below any, wrap func(any) any) {
	switch value := value.(type) {
	case map[string]any:
		if fails(map[string]any{}) {
			return nil, nil, nil // It is none of what is in it: it is not to be an object.
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			wrap := func(alone any) any { return map[string]any{key: alone} }
			if fails(wrap(value[key])) {
				return func(path string) string { return document.Key(path, key) }, value[key], wrap
			}
		}
	case []any:
		if fails([]any{}) {
			return nil, nil, nil
		}
		wrap := func(alone any) any { return []any{alone} }
		for i, item := range value {
			if fails(wrap(item)) {
				return func(path string) string { return document.Item(path, i) }, item, wrap
			}
		}
	}
	return nil, nil, nil
}

var goType = regexp.MustCompile(`into Go (?:struct field \S+|value) of type (\S+)`)

// wantedType is what the decoder wanted, in words of the API, "" if it does not
// say.
func wantedType(err error) string {
	match := goType.FindStringSubmatch(err.Error())
	var wrongType *json.UnmarshalTypeError
	switch {
	case match == nil:
		return ""
	case errors.As(err, &wrongType) && wrongType.Type.Kind() == reflect.String:
		return "a string" // types.UID, for example
	case strings.HasPrefix(match[1], "[]"):
		return "a list"
	case strings.HasPrefix(match[1], "map["), strings.Contains(match[1], "."):
		return "an object"
	case match[1] == reflect.String.String():
		return "a string"
	case match[1] == reflect.Bool.String():
		return "true or false"
	default:
		return "an integer (" + match[1] + ")"
	}
}

// shown is a value before what is said about it, objects and lists by their type.
func shown(value any) string {
	switch value.(type) {
	case nil, map[string]any, []any:
		return "is " + typeName(value)
	}
	return fmt.Sprint(value)
}

// typeName is the type of a parsed value in words of the API.
func typeName(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", value)
	case bool:
		return fmt.Sprintf("the boolean %t", value)
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return fmt.Sprintf("the number %v", value)
	}
}

var yamlLine = regexp.MustCompile(`line (\d+)(: column \d+)?: ?`)

// unreadable turns an error of package document or of the YAML library, which count
// lines from the start of the document, into one for the file.
func unreadable(doc part, err error) *Error {
	source := doc.Source
	var fault *document.Fault
	if errors.As(err, &fault) {
		source.Line += fault.Line - 1
		return &Error{Source: source, Field: fault.Field, Problem: fault.Problem}
	}
	message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	message = strings.TrimPrefix(message, "yaml: ")
	message = strings.TrimPrefix(message, "unmarshal errors:\n  ")
	if match := yamlLine.FindStringSubmatchIndex(message); match != nil {
		if n, err := strconv.Atoi(message[match[2]:match[3]]); err == nil {
			source.Line += n - 1
			message = message[:match[0]] + message[match[1]:]
		}
	}
	return &Error{Source: source, Problem: "not YAML: " + message}
}
