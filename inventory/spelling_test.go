// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLocalName(t *testing.T) {
	for name, want := range map[resourceapi.QualifiedName]resourceapi.QualifiedName{
		"memory":                  "memory",
		"d.example.com/memory":    "memory",
		"e.example.com/memory":    "e.example.com/memory",
		"d.example.com.au/memory": "d.example.com.au/memory",
		"d.example.com":           "d.example.com",
		"d.example.com/":          "",
		"/memory":                 "/memory",
		"d.example.com/a/b":       "a/b",
		"":                        "",
	} {
		if got := LocalName("d.example.com", name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	of := map[resourceapi.QualifiedName]int{"a": 1, "d/b": 2, "e/c": 3, "f": 4, "d/f": 5}
	for name, want := range map[resourceapi.QualifiedName]int{"a": 1, "d/a": 1, "b": 2, "d/b": 2, "c": 0, "e/c": 3, "d/c": 0, "e/a": 0, "d/f": 5, "": 0, "d/": 0} {
		as, got, found := Named(of, "d", name)
		if got != want || found != (want > 0) || found && of[as] != want {
			t.Errorf("%s is %d as %s (%t), want %d", name, got, as, found, want)
		}
	}
	if diff := cmp.Diff([]resourceapi.QualifiedName{"d/f"}, Twice(of, "d")); diff != "" {
		t.Errorf("twice (-want +got):\n%s", diff)
	}
	if got := Twice(of, "e"); got != nil {
		t.Errorf("%v are there twice", got)
	}
}

// TestOneSpelling: of what is published under both spellings a pool has that with the
// domain, and the slice stays as it is.
func TestOneSpelling(t *testing.T) {
	capacity := func(v string) resourceapi.DeviceCapacity {
		return resourceapi.DeviceCapacity{Value: resource.MustParse(v)}
	}
	text := func(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }
	device := named("d0")
	device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": text("a"), "d/model": text("b"), "e/model": text("c"), "other": text("d")}
	device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": capacity("1"), "d/memory": capacity("2")}
	published := slice("s", with(device, named("d1")))
	before := published.DeepCopy()
	pool, _ := inventoryOf(published).Snapshot().Pool(thePool)
	want := named("d0")
	want.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"d/model": text("b"), "e/model": text("c"), "other": text("d")}
	want.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"d/memory": capacity("2")}
	if diff := cmp.Diff(&want, pool.Device("d0").Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pool.Device("d1").Spec != &published.Spec.Devices[1] {
		t.Error("a device without such names was copied")
	}
	if diff := cmp.Diff(before, published); diff != "" {
		t.Errorf("the slice changed (-before +after):\n%s", diff)
	}
}

// TestSharesOfEitherSpelling: what shares consume adds up under one name, and a share gives
// back what it took, whoever spells it how.
func TestSharesOfEitherSpelling(t *testing.T) {
	spelt := func(claim, name, amount string) Hold {
		h := share("half-a", claim, claim, amount)
		h.Consumed = map[resourceapi.QualifiedName]Amount{resourceapi.QualifiedName(name): AmountOf(resource.MustParse(amount))}
		return h
	}
	view := viewWith(map[string][]Hold{"a": {spelt("a", "memory", "4")}, "b": {spelt("b", "d/memory", "3")}, "c": {spelt("c", "e/memory", "2")}})
	consumed := func(v *View) *Occupancy { return v.Pools[0].Use.Taken[1] }
	if got := consumed(view); got.ConsumedOf("d", "memory") != amountOfInt(7) || got.ConsumedOf("d", "d/memory") != amountOfInt(7) || got.ConsumedOf("d", "e/memory") != amountOfInt(2) {
		t.Errorf("consumed %v, want 7 of memory, 2 of that of e", got.Consumed)
	}
	if got := consumed(view.WhatIf([]Hold{spelt("a", "d/memory", "4")}, []Hold{spelt("e", "d/memory", "1")})); got.ConsumedOf("d", "memory") != amountOfInt(4) {
		t.Errorf("consumed %v, want 3 and 1 of memory", got.Consumed)
	}
}

// TestNegativeShare: what a share says that it consumes makes no room for others.
func TestNegativeShare(t *testing.T) {
	view := viewWith(map[string][]Hold{"a": {share("half-a", "a", "1", "-4")}, "b": {share("half-a", "b", "2", "6")}})
	if got := view.Pools[0].Use.Taken[1].ConsumedOf("d", "memory"); got != amountOfInt(6) {
		t.Errorf("consumed %v, want 6", got)
	}
}
