// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"embed"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/dump"
)

//go:embed testdata/worlds
var worlds embed.FS

// kindWorlds are clusters as somebody might have them.
var kindWorlds = func() []*dump.Dump {
	entries, err := worlds.ReadDir("testdata/worlds")
	if err != nil {
		panic(err)
	}
	var all []*dump.Dump
	for _, entry := range entries {
		text, err := worlds.ReadFile("testdata/worlds/" + entry.Name())
		if err != nil {
			panic(err)
		}
		d, err := dump.Unmarshal(text)
		if err != nil {
			panic(entry.Name() + ": " + err.Error())
		}
		all = append(all, d)
	}
	return all
}()

// generate makes a world out of bytes: the first chooses where it begins, the others
// what is changed.
func generate(data []byte) *dump.Dump {
	s := &source{data: data}
	d := as[*dump.Dump](clone(reflect.ValueOf(kindWorlds[s.intn(len(kindWorlds))])))
	m := &mutator{source: s, lent: map[reflect.Type][]reflect.Value{}}
	for _, other := range kindWorlds {
		m.collect(reflect.ValueOf(&other.Objects))
	}
	const most = 24
	for range most {
		if s.done() {
			break
		}
		objects := slices.Collect(d.All)
		object := objects[s.intn(len(objects))]
		namespace, name := object.GetNamespace(), object.GetName()
		m.change(reflect.ValueOf(object).Elem())
		// No two objects of a cluster have one name, and none has no name.
		object.SetNamespace(namespace)
		object.SetName(name)
	}
	return reduced(d)
}

// reduced has the objects as a dump takes them in.
func reduced(d *dump.Dump) *dump.Dump {
	kept := dump.New()
	for object := range d.All {
		if err := kept.Add(object); err != nil {
			panic(err)
		}
	}
	return kept
}

// reversed has the objects in the reverse order.
func reversed(d *dump.Dump) *dump.Dump {
	r := dump.New()
	all := slices.Collect(d.All)
	for i := range all {
		if err := r.Add(all[len(all)-1-i]); err != nil {
			panic(err)
		}
	}
	return r
}

// podsOf are the pods of a dump in an order of their own.
func podsOf(d *dump.Dump) []*v1.Pod {
	sorted := dump.New()
	sorted.Merge(d)
	sorted.Sort()
	return sorted.Pods
}
