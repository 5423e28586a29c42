// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a fabric's controller says in slices and DeviceTaintRules of a device that
// is attached for one claim.
const (
	// ClaimTaint keeps a device for the claim whose UID is the taint's value. That
	// claim tolerates it, and with it all ArrivingTaints, without saying so in its
	// spec, and takes such a device before any other.
	ClaimTaint = "fabric.kerf.dev/claim"
	// ArrivingTaint keeps everybody from devices among which one is about to arrive
	// for the claim whose UID is the taint's value: nobody knows yet which one.
	ArrivingTaint = "fabric.kerf.dev/arriving"

	// IdentityAttribute of a device in a fabric's pool names the attribute by whose
	// value the device is recognised when its node's driver publishes it.
	IdentityAttribute resourceapi.QualifiedName = "fabric.kerf.dev/identity"
	// ClaimAttribute of a device in a fabric's pool is the UID of the claim that it
	// is attached for. The device with the same identity on a node is then kept as
	// if it had the ClaimTaint.
	ClaimAttribute resourceapi.QualifiedName = "fabric.kerf.dev/claim"
	// TemplateAttribute marks a device in a fabric's pool that stands for any of its
	// model.
	TemplateAttribute resourceapi.QualifiedName = "kerf.dev/template"
	// AttachedCondition is the binding condition of a device in a fabric's pool.
	AttachedCondition = "fabric.kerf.dev/attached"
)

// identity is an attribute by whose value a driver's devices are recognised.
type identity struct {
	driver    string
	attribute resourceapi.QualifiedName
	value     string
}

// keeping is a device of a fabric's pool and the UID of the claim for which it has
// its twin on a node kept.
type keeping struct {
	uid   string
	offer DeviceID
}

func (k keeping) compare(other keeping) int {
	return cmp.Or(cmp.Compare(k.uid, other.uid), cmp.Compare(k.offer.String(), other.offer.String()))
}

// kept says for whom devices with these identities are kept, sorted. There is more
// than one entry for an identity while a fabric replaces its slices.
type kept map[identity][]keeping

// add takes in a slice, and returns the identities for which something changed.
// Slices of old generations and of incomplete pools count: where nobody can tell,
// the device stays kept.
func (k kept) add(slice *resourceapi.ResourceSlice) (changed []identity) {
	for i := range slice.Spec.Devices {
		if id, keeps, ok := keepingOf(slice, &slice.Spec.Devices[i]); ok {
			k[id] = append(k[id], keeps)
			slices.SortFunc(k[id], keeping.compare)
			changed = append(changed, id)
		}
	}
	return changed
}

func (k kept) remove(slice *resourceapi.ResourceSlice) (changed []identity) {
	for i := range slice.Spec.Devices {
		id, keeps, ok := keepingOf(slice, &slice.Spec.Devices[i])
		if !ok {
			continue
		}
		changed = append(changed, id)
		if at := slices.Index(k[id], keeps); at >= 0 {
			k[id] = slices.Delete(k[id], at, at+1)
		}
		if len(k[id]) == 0 {
			delete(k, id)
		}
	}
	return changed
}

// keepingOf reads from a device of a fabric's pool for whom its twin on a node is
// kept.
func keepingOf(slice *resourceapi.ResourceSlice, d *resourceapi.Device) (id identity, keeps keeping, ok bool) {
	claim, name := d.Attributes[ClaimAttribute].StringValue, d.Attributes[IdentityAttribute].StringValue
	if claim == nil || name == nil {
		return identity{}, keeping{}, false
	}
	id, ok = identityOf(slice.Spec.Driver, d, resourceapi.QualifiedName(*name))
	pool := poolOf(slice)
	return id, keeping{*claim, DeviceID{Driver: pool.Driver, Pool: pool.Pool, Device: d.Name}}, ok
}

// identityOf returns what a device is recognised by, if it has that attribute. The
// driver's own attributes may be published with or without its name. Drivers and
// managers do not agree on case.
func identityOf(driver string, d *resourceapi.Device, name resourceapi.QualifiedName) (identity, bool) {
	if !strings.Contains(string(name), "/") {
		name = resourceapi.QualifiedName(driver) + "/" + name
	}
	value := d.Attributes[name].StringValue
	if short, own := strings.CutPrefix(string(name), driver+"/"); value == nil && own {
		value = d.Attributes[resourceapi.QualifiedName(short)].StringValue
	}
	if value == nil {
		return identity{}, false
	}
	return identity{driver, name, strings.ToLower(strings.TrimSpace(*value))}, true
}

// taints are those that keep a device for the claims that its twin in a fabric's
// pool names. Names are the attributes to recognise it by.
func (k kept) taints(driver string, names []resourceapi.QualifiedName, d *resourceapi.Device) []Taint {
	if _, offered := d.Attributes[IdentityAttribute]; offered {
		return nil
	}
	var taints []Taint
	for _, name := range names {
		id, ok := identityOf(driver, d, name)
		if !ok {
			continue
		}
		for i, keeps := range k[id] {
			if i > 0 && keeps.uid == k[id][i-1].uid {
				continue
			}
			taints = append(taints, Taint{
				DeviceTaint: resourceapi.DeviceTaint{Key: ClaimTaint, Value: keeps.uid, Effect: resourceapi.DeviceTaintEffectNoSchedule},
				Offer:       keeps.offer,
			})
		}
	}
	slices.SortFunc(taints, func(a, b Taint) int { return cmp.Compare(a.Value, b.Value) })
	return taints
}

// attributes are those that a driver's kept devices are recognised by.
func (k kept) attributes(driver string) []resourceapi.QualifiedName {
	var names []resourceapi.QualifiedName
	for id := range k {
		if id.driver == driver && !slices.Contains(names, id.attribute) {
			names = append(names, id.attribute)
		}
	}
	return names
}

// Offered tells whether the device is one that a fabric offers: it is on a shelf, and
// is attached to a node when it is allocated.
func (d *Device) Offered() bool {
	_, identity := d.Spec.Attributes[IdentityAttribute]
	_, template := d.Spec.Attributes[TemplateAttribute]
	return identity || template || slices.Contains(d.Spec.BindingConditions, AttachedCondition)
}

// Reserves tells whether the taint keeps the device for the claim whose UID is its
// value: it is a ClaimTaint or an ArrivingTaint. No toleration in a claim's spec is
// meant to pass it.
func (t *Taint) Reserves() bool { return t.Key == ClaimTaint || t.Key == ArrivingTaint }

// KeptFor tells whether the device is kept for the claim with that UID, see
// [ClaimTaint].
func (d *Device) KeptFor(claim types.UID) bool {
	return slices.ContainsFunc(d.Taints, func(t Taint) bool { return t.Key == ClaimTaint && t.Value == string(claim) })
}
