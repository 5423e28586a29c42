// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

// sliceSize is the number of devices in a slice. Any of them may get a taint, and then
// there is room for fewer.
const sliceSize = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// offer is a device to publish, and the nodes that it can go to, as values of the
// label that selects them.
type offer struct {
	driver string
	device resourceapi.Device
	nodes  []string
	claim  types.UID // that the device is kept for
}

// offersOf makes devices to publish of what the planner offers. A device that can
// go nowhere is not offered.
func offersOf(f *v1alpha1.Fabric, n *nodes, all []fabric.Offer) []offer {
	offers := make([]offer, 0, len(all))
	known := map[*string][]string{} // offers share their nodes
	reserved := slices.Contains(f.Spec.Guards, v1alpha1.GuardReservation)
	for i := range all {
		o := &all[i]
		if len(o.Nodes) == 0 {
			continue
		}
		labels, ok := known[&o.Nodes[0]]
		if !ok {
			labels = n.labels(o.Nodes)
			known[&o.Nodes[0]] = labels
		}
		if len(labels) == 0 {
			continue
		}
		m := slices.IndexFunc(f.Spec.Models, func(m v1alpha1.DeviceModel) bool { return m.Name == o.Model.Name })
		offers = append(offers, offer{o.Driver, deviceFor(&f.Spec.Models[m], o, reserved), labels, o.Kept})
	}
	return offers
}

// deviceFor is what is published of a device: what the model says, and by what it
// will be recognised, and if it is reserved that way, for whom it is attached.
func deviceFor(m *v1alpha1.DeviceModel, o *fabric.Offer, reserved bool) resourceapi.Device {
	d := resourceapi.Device{
		Name:                     o.LocalDevice.Device,
		Attributes:               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		BindsToNode:              ptr.To(true),
		BindingConditions:        []string{v1alpha1.ConditionAttached},
		BindingFailureConditions: []string{v1alpha1.ConditionAttachFailed},
	}
	for name, value := range m.Attributes {
		d.Attributes[resourceapi.QualifiedName(name)] = publishedValue(value)
	}
	for name, value := range m.Capacity {
		if d.Capacity == nil {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
		}
		d.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: amountOf(value)}
	}
	if m.Template {
		d.Attributes[v1alpha1.AttributeTemplate] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
	}
	if o.Identity != nil {
		d.Attributes[resourceapi.QualifiedName(o.Identity.Attribute)] = resourceapi.DeviceAttribute{StringValue: &o.Identity.Value}
		d.Attributes[inventory.IdentityAttribute] = resourceapi.DeviceAttribute{StringValue: &o.Identity.Attribute}
	}
	if o.Kept != "" {
		claim := string(o.Kept)
		if reserved {
			d.Attributes[inventory.ClaimAttribute] = resourceapi.DeviceAttribute{StringValue: &claim}
		}
		d.Taints = []resourceapi.DeviceTaint{{Key: inventory.ArrivingTaint, Value: claim, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return d
}

// shelf is a pool as it is to be: the slices to write, in order, and those to
// delete afterwards.
type shelf struct {
	write, remove []*resourceapi.ResourceSlice
}

// arrange compares a driver's pool, as it is published, with what is offered.
// Devices stay in the slices where they are, so that one that comes, goes or changes
// is a matter of its slice, which is written in place. The pool is whole all the time.
// Where slices come or go, or a device moves, there is a new generation of the pool.
func arrange(f *v1alpha1.Fabric, label, driver string, offers []offer, published []*resourceapi.ResourceSlice) shelf {
	var generation int64
	byName := map[string]*resourceapi.ResourceSlice{}
	for _, s := range published {
		generation = max(generation, s.Spec.Pool.Generation)
		byName[s.Name] = s
	}
	wanted := layOut(f, label, driver, offers, byName)
	stamp(wanted, max(generation, 1))
	changes := changed(wanted, byName)
	var remove []*resourceapi.ResourceSlice
	for _, s := range published {
		if !slices.ContainsFunc(wanted, func(w *resourceapi.ResourceSlice) bool { return w.Name == s.Name }) {
			remove = append(remove, s)
		}
	}
	if len(published) > 0 && (len(remove) > 0 || !inPlace(changes, byName)) {
		stamp(wanted, generation+1)
		changes = wanted
	}
	return shelf{changes, remove}
}

// inPlace tells whether changes can be written one after the other: no slice is new,
// and no device was in another, where it would be missing or twice for a moment.
func inPlace(changes []*resourceapi.ResourceSlice, published map[string]*resourceapi.ResourceSlice) bool {
	home := map[string]string{}
	for name, s := range published {
		for i := range s.Spec.Devices {
			home[s.Spec.Devices[i].Name] = name
		}
	}
	for _, s := range changes {
		if published[s.Name] == nil {
			return false
		}
		for i := range s.Spec.Devices {
			if was, known := home[s.Spec.Devices[i].Name]; known && was != s.Name {
				return false
			}
		}
	}
	return true
}

// layOut distributes offers over slices, one group of nodes after the other.
func layOut(f *v1alpha1.Fabric, label, driver string, offers []offer, published map[string]*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	groups := map[string][]offer{}
	for _, o := range offers {
		key := strings.Join(o.nodes, ",")
		groups[key] = append(groups[key], o)
	}
	var wanted []*resourceapi.ResourceSlice
	for _, group := range groups {
		prefix := f.Name + "-" + digest(driver, label, strings.Join(group[0].nodes, ",")) + "-"
		for name, devices := range distribute(prefix, group, published) {
			s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if old := published[name]; old != nil {
				s = old.DeepCopy()
			}
			s.Labels = map[string]string{labelFabric: f.Name}
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f, v1alpha1.SchemeGroupVersion.WithKind("Fabric"))}
			s.Spec = resourceapi.ResourceSliceSpec{
				Driver: driver, Pool: resourceapi.ResourcePool{Name: fabric.PoolName(f.Name)},
				NodeSelector: selecting(label, group[0].nodes), Devices: devices,
			}
			wanted = append(wanted, s)
		}
	}
	slices.SortFunc(wanted, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return wanted
}

// distribute gives each slice its devices: those that it has, then new ones while
// there is room.
func distribute(prefix string, group []offer, published map[string]*resourceapi.ResourceSlice) map[string][]resourceapi.Device {
	left := map[string]resourceapi.Device{}
	var order []string
	for _, o := range group {
		left[o.device.Name] = o.device
		order = append(order, o.device.Name)
	}
	full := map[string][]resourceapi.Device{}
	for name, s := range published {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for i := range s.Spec.Devices {
			if d, ok := left[s.Spec.Devices[i].Name]; ok && len(full[name]) < sliceSize {
				full[name] = append(full[name], d)
				delete(left, d.Name)
			}
		}
	}
	i := 0
	for _, device := range order {
		d, ok := left[device]
		if !ok {
			continue
		}
		for len(full[sliceName(prefix, i)]) >= sliceSize {
			i++
		}
		full[sliceName(prefix, i)] = append(full[sliceName(prefix, i)], d)
	}
	return full
}

func sliceName(prefix string, i int) string { return prefix + strconv.Itoa(i) }

// stamp numbers the slices of a generation of a pool.
func stamp(all []*resourceapi.ResourceSlice, generation int64) {
	for _, s := range all {
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, int64(len(all))
	}
}

func changed(wanted []*resourceapi.ResourceSlice, published map[string]*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var changes []*resourceapi.ResourceSlice
	for _, s := range wanted {
		if old := published[s.Name]; old == nil || !equality.Semantic.DeepEqual(old.Spec, s.Spec) {
			changes = append(changes, s)
		}
	}
	return changes
}

func selecting(label string, values []string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}
}
