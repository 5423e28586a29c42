// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// fabricGroup and fabricKind are of the objects that own a fabric's slices.
const (
	fabricGroup = "fabric.kerf.dev"
	fabricKind  = "Fabric"
)

// FabricPool is the name of the pool in which a Fabric's devices are published.
func FabricPool(name string) string { return fabricGroup + "/" + name }

// FromFabric tells whether a slice is of a fabric's pool, so that what it says of other
// devices than its own is believed: it belongs to no node, and the Fabric by which its
// pool is called owns it. An admission policy lets kerf-controller alone write such
// slices.
func FromFabric(slice *resourceapi.ResourceSlice) bool {
	if slice.Spec.NodeName != nil {
		return false
	}
	return slices.ContainsFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(o.APIVersion, "/")
		return group == fabricGroup && o.Kind == fabricKind && o.Controller != nil && *o.Controller && slice.Spec.Pool.Name == FabricPool(o.Name)
	})
}

// kept says for whom devices are kept by their identities.
type kept struct {
	// claims has, for an identity, those for whom it is kept, sorted. There is more
	// than one entry while a fabric replaces its slices.
	claims map[identity][]keeping
	// names are, by driver, the attributes by which devices that fabrics offer are
	// recognised. One that was is known for good, so that homes is built up once.
	names map[string][]resourceapi.QualifiedName
	// homes are the pools that publish a device with an identity, and how many.
	homes map[identity]map[PoolID]int
}

func newKept() *kept {
	return &kept{
		claims: map[identity][]keeping{}, names: map[string][]resourceapi.QualifiedName{},
		homes: map[identity]map[PoolID]int{},
	}
}

// replace takes in a slice in place of another, either of which may be nil. It returns
// the pools with devices that are kept for somebody else than before. all are the
// slices that there are now. Slices of old generations and of incomplete pools count:
// where nobody can tell, the device stays kept.
func (k *kept) replace(old, next *resourceapi.ResourceSlice, all map[string]*resourceapi.ResourceSlice) []PoolID {
	before := map[identity][]keeping{}
	for _, slice := range []*resourceapi.ResourceSlice{old, next} {
		for id := range keepingsOf(slice) {
			before[id] = k.distinct(id)
		}
	}
	k.remove(old)
	k.add(next, all)
	var stale []PoolID
	for id, was := range before {
		if !slices.Equal(was, k.distinct(id)) {
			stale = slices.AppendSeq(stale, maps.Keys(k.homes[id]))
		}
	}
	return stale
}

// distinct has one entry for each claim that a device is kept for.
func (k *kept) distinct(id identity) []keeping {
	return slices.CompactFunc(slices.Clone(k.claims[id]), func(a, b keeping) bool { return a.uid == b.uid })
}

func (k *kept) add(slice *resourceapi.ResourceSlice, all map[string]*resourceapi.ResourceSlice) {
	if slice == nil {
		return
	}
	if !FromFabric(slice) {
		k.house(slice, k.names[slice.Spec.Driver], 1)
		return
	}
	for i := range slice.Spec.Devices {
		if name := slice.Spec.Devices[i].Attributes[IdentityAttribute].StringValue; name != nil {
			k.learn(slice.Spec.Driver, FullName(slice.Spec.Driver, resourceapi.QualifiedName(*name)), all)
		}
	}
	for id, keeps := range keepingsOf(slice) {
		k.claims[id] = append(k.claims[id], keeps)
		slices.SortFunc(k.claims[id], keeping.compare)
	}
}

// learn looks for a name that devices are recognised by in all slices of the driver.
func (k *kept) learn(driver string, name resourceapi.QualifiedName, all map[string]*resourceapi.ResourceSlice) {
	if slices.Contains(k.names[driver], name) {
		return
	}
	k.names[driver] = append(k.names[driver], name)
	for _, slice := range all {
		if slice.Spec.Driver == driver && !FromFabric(slice) {
			k.house(slice, []resourceapi.QualifiedName{name}, 1)
		}
	}
}

func (k *kept) remove(slice *resourceapi.ResourceSlice) {
	if slice == nil {
		return
	}
	if !FromFabric(slice) {
		k.house(slice, k.names[slice.Spec.Driver], -1)
		return
	}
	for id, keeps := range keepingsOf(slice) {
		if at := slices.Index(k.claims[id], keeps); at >= 0 {
			k.claims[id] = slices.Delete(k.claims[id], at, at+1)
		}
		if len(k.claims[id]) == 0 {
			delete(k.claims, id)
		}
	}
}

// house counts the devices of a slice for its pool, or with -1 discounts them.
func (k *kept) house(slice *resourceapi.ResourceSlice, names []resourceapi.QualifiedName, by int) {
	pool := poolOf(slice)
	for i := range slice.Spec.Devices {
		for _, name := range names {
			id, ok := identityOf(slice.Spec.Driver, &slice.Spec.Devices[i], name)
			if !ok {
				continue
			}
			if k.homes[id] == nil {
				k.homes[id] = map[PoolID]int{}
			}
			if k.homes[id][pool] += by; k.homes[id][pool] == 0 {
				delete(k.homes[id], pool)
			}
			if len(k.homes[id]) == 0 {
				delete(k.homes, id)
			}
		}
	}
}

// keepingsOf reads from the devices of a fabric's slice for whom their twins on nodes
// are kept. Another slice has none.
func keepingsOf(slice *resourceapi.ResourceSlice) iter.Seq2[identity, keeping] {
	return func(yield func(identity, keeping) bool) {
		if slice == nil || !FromFabric(slice) {
			return
		}
		pool := poolOf(slice)
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			claim, name := d.Attributes[ClaimAttribute].StringValue, d.Attributes[IdentityAttribute].StringValue
			if claim == nil || name == nil {
				continue
			}
			id, ok := identityOf(pool.Driver, d, FullName(pool.Driver, resourceapi.QualifiedName(*name)))
			if ok && !yield(id, keeping{*claim, DeviceID{Driver: pool.Driver, Pool: pool.Pool, Device: d.Name}}) {
				return
			}
		}
	}
}

// identityOf returns what a device is recognised by, if it has that attribute, whose
// name has a domain. The driver's own attributes may be published with or without its
// name. Drivers and managers do not agree on case.
func identityOf(driver string, d *resourceapi.Device, name resourceapi.QualifiedName) (identity, bool) {
	_, a, _ := Named(d.Attributes, driver, name)
	if a.StringValue == nil {
		return identity{}, false
	}
	return identity{driver, name, strings.ToLower(strings.TrimSpace(*a.StringValue))}, true
}

// taints are those that keep a device of a slice for the claims that its twin in a
// fabric's pool names.
func (k *kept) taints(slice *resourceapi.ResourceSlice, d *resourceapi.Device) []Taint {
	if k == nil || len(k.claims) == 0 {
		return nil
	}
	var taints []Taint
	for _, name := range k.names[slice.Spec.Driver] {
		id, ok := identityOf(slice.Spec.Driver, d, name)
		if !ok || len(k.claims[id]) == 0 || FromFabric(slice) {
			continue
		}
		for _, keeps := range k.distinct(id) {
			taints = append(taints, Taint{
				DeviceTaint: resourceapi.DeviceTaint{Key: ClaimTaint, Value: keeps.uid, Effect: resourceapi.DeviceTaintEffectNoSchedule},
				Offer:       keeps.offer,
			})
		}
	}
	slices.SortFunc(taints, func(a, b Taint) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Offer.String(), b.Offer.String()))
	})
	return taints
}

// Offered tells whether the device is one that a fabric offers: it is on a shelf, and
// is attached to a node when it is allocated.
func (d *Device) Offered() bool {
	if !FromFabric(d.Slice) {
		return false
	}
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
	for i := range d.Taints { // there may be thousands
		if t := &d.Taints[i]; t.Key == ClaimTaint && t.Value == string(claim) {
			return true
		}
	}
	return false
}
