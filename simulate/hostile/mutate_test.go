// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// as is a value of a type that it is known to have.
func as[T any](v reflect.Value) T {
	t, ok := reflect.TypeAssert[T](v)
	if !ok {
		panic(fmt.Sprintf("%s, want %T", v.Type(), t))
	}
	return t
}

// mutator changes objects at places that its bytes choose.
type mutator struct {
	*source
	// lent are values of other places, by type.
	lent map[reflect.Type][]reflect.Value
}

// collect keeps what is below a value, to be put elsewhere.
func (m *mutator) collect(v reflect.Value) {
	const most = 64 // of a type
	if !v.CanInterface() || len(m.lent[v.Type()]) >= most {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		m.collect(v.Elem())
	case reflect.Struct:
		if atom(v.Type()) {
			break
		}
		for i := range v.NumField() {
			m.collect(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.collect(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			m.collect(key)
			m.collect(v.MapIndex(key))
		}
	default:
	}
	m.lent[v.Type()] = append(m.lent[v.Type()], v)
}

var (
	quantity = reflect.TypeFor[resource.Quantity]()
	moment   = reflect.TypeFor[metav1.Time]()
)

// atom reports whether a struct is changed as a whole.
func atom(t reflect.Type) bool { return t == quantity || t == moment }

// change goes down from a value and changes something.
func (m *mutator) change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		m.changePointer(v)
	case reflect.Struct:
		m.changeStruct(v)
	case reflect.Slice:
		m.changeSlice(v)
	case reflect.Map:
		m.changeMap(v)
	case reflect.String:
		v.SetString(m.text(v.Type(), v.String()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		n := pick(m.source, int64(0), 1, 2, -1, 33, 129, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64)
		v.SetInt(n)
		if v.OverflowInt(n) {
			v.SetInt(n >> 32)
		}
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default: // bytes of opaque parameters and the like decide nothing
	}
}

// lend puts a value of the same type from elsewhere in place, if there is one.
func (m *mutator) lend(v reflect.Value) bool {
	known := m.lent[v.Type()]
	if len(known) == 0 {
		return false
	}
	v.Set(clone(known[m.intn(len(known))]))
	return true
}

// clone is a copy that shares nothing which is changed later.
func clone(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			to.Set(reflect.New(v.Type().Elem()))
			to.Elem().Set(clone(v.Elem()))
		}
	case reflect.Struct:
		to.Set(v)
		if v.Type() == quantity {
			to.Set(reflect.ValueOf(as[resource.Quantity](v).DeepCopy()))
			break
		}
		for i := range v.NumField() {
			if to.Field(i).CanSet() {
				to.Field(i).Set(clone(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				to.Index(i).Set(clone(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			to.Set(reflect.MakeMap(v.Type()))
			for _, key := range v.MapKeys() {
				to.SetMapIndex(key, clone(v.MapIndex(key)))
			}
		}
	default:
		to.Set(v)
	}
	return to
}

func (m *mutator) changePointer(v reflect.Value) {
	switch {
	case v.IsNil():
		if m.intn(3) == 0 && m.lend(v) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		if atom(v.Type().Elem()) || m.intn(2) == 0 {
			m.change(v.Elem())
		}
	case m.intn(5) == 0:
		v.SetZero()
	default:
		m.change(v.Elem())
	}
}

func (m *mutator) changeStruct(v reflect.Value) {
	switch v.Type() {
	case quantity:
		v.Set(reflect.ValueOf(resource.MustParse(pick(m.source, "0", "1", "-1", "1n", "500m", "3", "40Gi", "7E", "1e30", "-1e30", "1e100", "9223372036854775807", "0.1n"))))
		return
	case moment:
		v.Set(reflect.ValueOf(metav1.Unix(int64(1+m.intn(3))*1e9, 0)))
		return
	}
	if m.intn(12) == 0 && m.lend(v) {
		return
	}
	// What is set is more worth a change than what is not.
	var set, all []int
	for i := range v.NumField() {
		if !v.Field(i).CanSet() {
			continue
		}
		all = append(all, i)
		if !v.Field(i).IsZero() {
			set = append(set, i)
		}
	}
	if len(set) > 0 && m.intn(4) > 0 {
		all = set
	}
	if len(all) > 0 {
		m.change(v.Field(all[m.intn(len(all))]))
	}
}

func (m *mutator) changeSlice(v reflect.Value) {
	n := v.Len()
	if n > 0 && m.intn(3) > 0 {
		m.change(v.Index(m.intn(n)))
		return
	}
	switch op := m.intn(8); {
	case op == 0:
		v.SetZero()
	case op == 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case op == 2 && m.lend(v):
	case op == 3 && n > 0:
		i := m.intn(n)
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, n)))
	case op == 4 && n > 0:
		m.repeat(v, pick(m.source, 2, 33, 65, 129))
	case op == 5 && n > 0:
		v.Set(reflect.Append(v.Slice3(0, n, n), clone(v.Index(m.intn(n))))) // the same twice
	default:
		item := reflect.New(v.Type().Elem()).Elem()
		if m.intn(3) == 0 || !m.lend(item) {
			m.change(item)
		}
		v.Set(reflect.Append(v.Slice3(0, n, n), item))
	}
}

// repeat makes a list of so many, with names that differ where there are any.
func (m *mutator) repeat(v reflect.Value, n int) {
	longer := reflect.MakeSlice(v.Type(), 0, n)
	for i := range n {
		item := clone(v.Index(i % v.Len()))
		if item.Kind() == reflect.Struct {
			if name := item.FieldByName("Name"); i >= v.Len() && name.IsValid() && name.Kind() == reflect.String {
				name.SetString(fmt.Sprintf("%s-%d", name.String(), i))
			}
		}
		longer = reflect.Append(longer, item)
	}
	v.Set(longer)
}

func (m *mutator) changeMap(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	at := func() reflect.Value { return keys[m.intn(len(keys))] }
	switch op := m.intn(5); {
	case op == 0 && len(keys) > 0:
		v.SetMapIndex(at(), reflect.Value{})
	case op == 1 && len(keys) > 0: // under another name, or spelt otherwise, too
		from := at()
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(m.text(key.Type(), from.String()))
		v.SetMapIndex(key, clone(v.MapIndex(from)))
	case op >= 2 && len(keys) > 0:
		key := at()
		item := clone(v.MapIndex(key))
		m.change(item)
		v.SetMapIndex(key, item)
	default:
		key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString(m.text(key.Type(), ""))
		if !m.lend(item) {
			m.change(item)
		}
		v.SetMapIndex(key, item)
	}
}

// text is another text for a place where there is one.
func (m *mutator) text(t reflect.Type, was string) string {
	if slices.Contains(expressions, was) || strings.Contains(was, "device.") {
		return pick(m.source, expressions...)
	}
	switch op := m.intn(6); {
	case op == 0 && was != "":
		return m.respell(was)
	case op <= 2 && len(m.lent[t]) > 0:
		return m.lent[t][m.intn(len(m.lent[t]))].String()
	}
	return pick(m.source, texts...)
}

// respell is the same name with or without the domain that belongs to it, or in
// capitals.
func (m *mutator) respell(name string) string {
	if _, short, qualified := strings.Cut(name, "/"); qualified {
		return short
	}
	return pick(m.source, "gpu.example.com/"+name, "nic.example.com/"+name, "/"+name, strings.ToUpper(name), name+"/")
}

// texts are names of what is in the worlds, and of nothing.
var texts = []string{
	"", "a", "missing", "gpu", "nic", "any", "gpu.example.com", "nic.example.com", "n1", "n2", "gpu-0", "whole-0", "card-0", "memory", "model",
	"gpu.example.com/model", "resource.kubernetes.io/pcieRoot", "fabric.kerf.dev/claim", "fabric.kerf.dev/arriving", "fabric.kerf.dev/identity",
	"kerf.dev/template", "c1", "c2", "p1", "default", "first", "held", "more", "gpu/whole", "b/halves", "All", "ExactCount", "NoExecute", "NoSchedule", "Exists", "Equal",
	"example.com/gpu", "deviceclass.resource.kubernetes.io/gpu", "1.2.3", "not a version", "uuid-1", "two words", "Ünïcode", "line\nbreak",
	"1e-9", "-", "/", "a/b/c", "[0]", ".", strings.Repeat("x", 64), strings.Repeat("x.", 150),
	string(resourceapi.DeviceTaintEffectNone), resourceapi.PodResourceClaimAnnotation, resourceapi.ExtendedResourceClaimAnnotation,
	"11111111-1111-4111-8111-111111111111",
}

// expressions are selectors and derived attributes: some fail, some are deep or slow.
var expressions = []string{
	"true", "false", "", "1 +", "device", `device.driver`, `device.driver == "gpu.example.com"`, `device.driver == "nic.example.com"`,
	`device.attributes["gpu.example.com"].model == "H100"`, `device.attributes["gpu.example.com"].missing`, `device.attributes["gpu.example.com"].index == 1`,
	`device.attributes["gpu.example.com"].index / 0 == 1`, `device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi"))`,
	`device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`, `device.attributes["gpu.example.com"].rack`, `device.attributes["nic.example.com"].zones`,
	`device.allowMultipleAllocations`, `device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")`,
	strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100), strings.Repeat("!", 60) + "true", "true" + strings.Repeat(" && true", 200),
	`[1,2,3,4,5,6].all(a, [1,2,3,4,5,6].all(b, [1,2,3,4,5,6].all(c, a + b + c > 0)))`, `device.driver.matches("(a+)+$")`,
	`quantity("1e-999999999").isInteger()`, `quantity(device.attributes["gpu.example.com"].model).isInteger()`, strings.Repeat("x", 11000),
}
