// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package variants makes manifests for tests, which say of each whether it is valid and
// compare answers.
//
// A variant is a sound manifest of its kind with one place changed: a value is left out,
// emptied, repeated, made too long, too large, negative, or one of those that the API has
// elsewhere.
package variants

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Sound are manifests that an API server takes, with as many fields as go together.
//
//go:embed sound.yaml
var Sound []byte

// Variant is an object that differs from a sound one in one place.
type Variant struct {
	Name   string // the place and what was done to it
	Object map[string]any
}

// kept are the places that say what the object is, which is not compared.
var kept = regexp.MustCompile(`^(apiVersion|kind|metadata|metadata\.namespace)$`)

// Of changes each place of an object below a path in each way; the first is the object
// itself.
func Of(sound map[string]any, below string) []Variant {
	all := []Variant{{"sound", sound}}
	var walk func(path string, value any, put func(in any, v any) any)
	walk = func(path string, value any, put func(in any, v any) any) {
		if path != "" && !kept.MatchString(path) && strings.HasPrefix(path, below) {
			for _, c := range changes(value) {
				changed := put(runtime.DeepCopyJSON(sound), c.value)
				all = append(all, Variant{path + ": " + c.name, as[map[string]any](changed)})
			}
		}
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(strings.TrimPrefix(path+"."+key, "."), value[key], func(in, v any) any {
					return put(in, within(at(in, path), key, v))
				})
			}
		case []any:
			for i := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), value[i], func(in, v any) any {
					return put(in, replaced(as[[]any](at(in, path)), i, v))
				})
			}
		}
	}
	walk("", sound, func(_, v any) any { return v })
	return all
}

// as is a value of a type that it is known to have.
func as[T any](value any) T {
	t, ok := value.(T)
	if !ok {
		panic(fmt.Sprintf("%v is a %T, want a %T", value, value, t))
	}
	return t
}

// absent takes a value away.
type absent struct{}

func within(in any, key string, v any) any {
	m := as[map[string]any](in)
	if _, gone := v.(absent); gone {
		delete(m, key)
	} else {
		m[key] = v
	}
	return m
}

func replaced(list []any, i int, v any) any {
	if _, gone := v.(absent); gone {
		return slices.Delete(list, i, i+1)
	}
	list[i] = v
	return list
}

// at finds the value of a path as walk writes it: keys may have dots, so it is looked
// for from the root.
func at(in any, path string) any {
	for path != "" {
		switch value := in.(type) {
		case map[string]any:
			longest := ""
			for key := range value {
				if rest, found := strings.CutPrefix(path, key); found && len(key) > len(longest) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
					longest = key
				}
			}
			in, path = value[longest], strings.TrimPrefix(path[len(longest):], ".")
		case []any:
			var i int
			_, _ = fmt.Sscanf(path, "[%d]", &i)
			in, path = value[i], strings.TrimPrefix(path[strings.Index(path, "]")+1:], ".")
		}
	}
	return in
}

type change struct {
	name  string
	value any
}

var (
	texts = []string{"", "A", "a.b", "a/b", "a/b/c", "Example.com/GPU", "kubernetes.io/a", "-a", "a b", "ü", "true", "1", "-1", "1.5", "500m", "1e30"}
	// words are those that the API has for choices.
	words   = []string{"Exists", "Equal", "In", "NotIn", "All", "ExactCount", "NoSchedule", "PreferNoSchedule", "NoExecute", "None", "Always", "Never", "OnFailure", "Guaranteed"}
	lengths = []int{64, 254, 11 << 10}
	numbers = []int64{-1, 0, 2, 17, 1 << 33}
	// times are how often an entry of a list or map is there, with names of their own.
	times = []int{5, 9, 17, 33, 49, 65, 129}
)

// changes are what may be instead of a value.
func changes(value any) []change {
	all := []change{{"left out", absent{}}, {"null", nil}}
	switch value := value.(type) {
	case string:
		for _, text := range texts {
			all = append(all, change{fmt.Sprintf("%q", text), text})
		}
		for _, n := range lengths {
			all = append(all, change{fmt.Sprintf("%d characters", n), strings.Repeat("a", n)})
		}
		if slices.Contains(words, value) {
			for _, word := range words {
				all = append(all, change{word, word})
			}
		}
	case int64:
		for _, n := range numbers {
			all = append(all, change{fmt.Sprint(n), n})
		}
		all = append(all, change{"text", "a"})
	case bool:
		all = append(all, change{"reverse", !value})
	case []any:
		all = append(all, change{"empty", []any{}})
		if len(value) > 0 {
			all = append(all, change{"first twice", append(slices.Clone(value), runtime.DeepCopyJSONValue(value[0]))})
			for _, n := range times {
				all = append(all, change{fmt.Sprintf("%d times", n), repeated(value, n)})
			}
		}
	case map[string]any:
		all = append(all, changesOfMap(value)...)
	}
	return all
}

func changesOfMap(value map[string]any) []change {
	all := []change{{"empty", map[string]any{}}, {"unknown field", with(value, "unheardOf", "a")}}
	for _, key := range slices.Sorted(maps.Keys(value)) {
		all = append(all, change{key + " in capitals", renamed(value, key, strings.ToUpper(key))})
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz") == "" {
			continue // a field, or like one
		}
		for _, to := range []string{"a/b/c", "Example.com/GPU", "kubernetes.io/a", strings.Repeat("a", 64), "a b"} {
			all = append(all, change{key + " renamed", renamed(value, key, to)})
		}
	}
	for _, n := range times {
		all = append(all, change{fmt.Sprintf("%d entries", n), multiplied(value, n)})
	}
	return all
}

// repeated has the first entry n times, each with a name, key or text of its own where
// it has one.
func repeated(list []any, n int) []any {
	var all []any
	for i := range n {
		entry := runtime.DeepCopyJSONValue(list[0])
		switch e := entry.(type) {
		case map[string]any:
			for _, field := range []string{"name", "key"} {
				if text, ok := e[field].(string); ok {
					e[field] = fmt.Sprintf("%s%d", text, i)
				}
			}
		case string:
			entry = fmt.Sprintf("%s%d", e, i)
		case int64:
			entry = e + int64(i)
		}
		all = append(all, entry)
	}
	return all
}

// multiplied has the first entry n times under names of their own.
func multiplied(m map[string]any, n int) map[string]any {
	keys := slices.Sorted(maps.Keys(m))
	if len(keys) == 0 {
		return m
	}
	all := runtime.DeepCopyJSON(m)
	for i := range n {
		all[fmt.Sprintf("%s%d", keys[0], i)] = runtime.DeepCopyJSONValue(m[keys[0]])
	}
	return all
}

func with(m map[string]any, key string, value any) map[string]any {
	all := runtime.DeepCopyJSON(m)
	all[key] = value
	return all
}

func renamed(m map[string]any, from, to string) map[string]any {
	all := runtime.DeepCopyJSON(m)
	all[to] = all[from]
	if from != to {
		delete(all, from)
	}
	return all
}
