// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
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
	"sigs.k8s.io/yaml"

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
func (l *loader) decode(doc document) ([]*Object, Errors) {
	if dump.CutOff(doc.text) {
		return nil, Errors{{Source: doc.Source, Object: dump.Kind, Problem: dump.CutOffProblem}}
	}
	positions := newPositions(doc)
	text, err := yaml.YAMLToJSONStrict(doc.text)
	if err != nil {
		return nil, Errors{syntaxError(doc, err)}
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
		return nil, Errors{syntaxError(doc, err)}
	}
	content, ok := value.(map[string]any)
	if !ok {
		source := doc.Source
		source.Line = positions.start()
		return nil, Errors{{Source: source, Problem: fmt.Sprintf("is %s, want an object with apiVersion and kind", typeName(value))}}
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
	if !scheme.Recognizes(gvk) {
		// A custom resource, perhaps; see Set.CheckComplete.
		return nil
	}
	typed, err := scheme.New(gvk)
	if err != nil {
		return Errors{o.Errorf("kind", "%v", err)}
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return Errors{o.Errorf("", "%v", err)}
	}
	strict, err := kjson.UnmarshalStrict(text, typed)
	if err != nil {
		return Errors{o.valueError(gvk, err)}
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

// valueError describes a value that does not fit its field. The decoder does
// not say reliably which one it is, so it is found by leaving values out until
// the error changes.
func (o *Object) valueError(gvk schema.GroupVersionKind, problem error) *Error {
	fails := func() bool {
		typed, err := scheme.New(gvk)
		if err != nil {
			return false
		}
		text, err := json.Marshal(o.Object)
		if err != nil {
			return false
		}
		_, err = kjson.UnmarshalStrict(text, typed)
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
		message = fmt.Sprintf("%v: %s", value, message)
	}
	return o.Errorf(path, "%s", message)
}

// culprit returns the path of the smallest value without which it no longer
// fails, and the value.
func culprit(value any, fails func() bool) (path string, found any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			saved := value[key]
			delete(value, key)
			blamed := !fails()
			value[key] = saved
			if blamed {
				below, found := culprit(saved, fails)
				return join(key, below), found
			}
		}
	case []any:
		for i, saved := range value {
			value[i] = nil
			blamed := !fails()
			value[i] = saved
			if blamed {
				below, found := culprit(saved, fails)
				return join("["+strconv.Itoa(i)+"]", below), found
			}
		}
	}
	return "", value
}

func join(step, below string) string {
	if strings.ContainsAny(step, "./") && step[0] != '[' {
		step = "[" + step + "]"
	}
	if below == "" || below[0] == '[' {
		return step + below
	}
	return step + "." + below
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

var goType = regexp.MustCompile(`into Go (?:struct field \S+|value) of type (\S+)`)

// wantedType is what the decoder wanted, in words of the API, "" if it does not
// say.
func wantedType(err error) string {
	match := goType.FindStringSubmatch(err.Error())
	switch {
	case match == nil:
		return ""
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

// syntaxError turns an error of the YAML library, which counts lines from the
// start of the document, into one for the file.
func syntaxError(doc document, err error) *Error {
	source := doc.Source
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
