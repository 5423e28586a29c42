// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/sandbox/driver"
	"kerf.dev/kerf/sandbox/rack"
	"kerf.dev/kerf/scenario"
)

var _ scenario.Fabrics = &backend{}

// manufacturer is that of all devices on shelves.
const manufacturer = "Acme"

// notices is how long a driver takes to notice a device, where a story does not say.
const notices = 50 * time.Millisecond

// times reads the times of a verb; an empty text is none.
type times struct{ err error }

func (t *times) read(text string) time.Duration {
	if text == "" || t.err != nil {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		t.err = fmt.Errorf("%q is not a time such as 2s or 150ms", text)
	}
	return d
}

func (t *times) optional(text string) *metav1.Duration {
	if text == "" {
		return nil
	}
	return &metav1.Duration{Duration: t.read(text)}
}

// Stock puts up a shelf whose hosts are the nodes of the same names.
func (b *backend) Stock(s scenario.Shelf) error {
	b.settled = nil
	var t times
	config := description.Config{
		Tasks: true,
		Latency: description.Latency{
			Attach: description.Duration(t.read(s.Attach)), Detach: description.Duration(t.read(s.Detach)), Appear: description.Duration(t.read(s.Appear)),
		},
		Limits: description.Limits{Concurrent: s.Operations, PerHost: s.PerHost},
	}
	if t.err != nil {
		return t.err
	}
	for zone := range s.Zones {
		config.Zones = append(config.Zones, zone)
	}
	slices.Sort(config.Zones)
	for _, host := range s.Hosts {
		h := description.Host{ID: host}
		for _, zone := range config.Zones {
			if slices.Contains(s.Zones[zone], host) {
				h.Zones = append(h.Zones, zone)
			}
		}
		config.Hosts = append(config.Hosts, h)
	}
	for _, item := range s.Devices {
		block := description.Block{
			ID: item.Name, Manufacturer: manufacturer, Model: item.Model, MemoryMiB: item.Memory.Value() >> 20, Host: item.Host,
		}
		if item.Zone != "" {
			block.Zones = []string{item.Zone}
		}
		config.Blocks = append(config.Blocks, block)
	}
	if err := b.sandbox.Rack().Start(b.ctx); err != nil {
		return err
	}
	return b.sandbox.Rack().Stock(b.ctx, config)
}

// Offer creates or changes a Fabric.
func (b *backend) Offer(f scenario.Fabric) error {
	b.settled = nil
	access, err := b.sandbox.Rack().Access()
	if err != nil {
		return fmt.Errorf("%w; begin with the verb shelf", err)
	}
	object, err := fabricOf(f, access, b.sandbox.Rack().Shelf())
	if err != nil {
		return err
	}
	offered := map[string]bool{}
	for _, m := range object.Spec.Models {
		offered[m.Match.Model] = true
	}
	err = b.sandbox.Rack().RunDriver(b.ctx, rack.Driver{
		Name: f.Driver, Latency: notices, Takes: func(d service.Device) bool { return offered[d.Model] },
	})
	if err != nil {
		return err
	}
	return b.put(object)
}

// put creates or replaces a Fabric.
func (b *backend) put(f *v1alpha1.Fabric) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	r := b.sandbox.Dynamic().Resource(v1alpha1.SchemeGroupVersion.WithResource("fabrics"))
	old, err := r.Get(b.ctx, f.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = r.Create(b.ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	if err != nil {
		return err
	}
	u.SetResourceVersion(old.GetResourceVersion())
	_, err = r.Update(b.ctx, u, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// fabricOf is the Fabric that a story describes.
func fabricOf(f scenario.Fabric, access v1alpha1.Redfish, shelf description.Config) (*v1alpha1.Fabric, error) {
	var t times
	object := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: f.Name}}
	object.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Fabric"))
	object.Spec = v1alpha1.FabricSpec{
		Redfish:         access,
		Machines:        v1alpha1.MachineMapping{Label: &v1alpha1.MachineLabel{Key: "kubernetes.io/hostname", Property: v1alpha1.MachineHostName}},
		HandOver:        v1alpha1.HandOver(f.Mode),
		AttachTimeout:   t.optional(f.Timeout),
		IdleDetachAfter: t.optional(f.Idle),
		KeepIdle:        f.KeepsIdles,
		Concurrency: v1alpha1.Concurrency{
			Operations: ptr.To(int32(max(f.Operations, f.PerNode, 1))), PerMachine: ptr.To(int32(max(f.PerNode, 1))),
		},
	}
	if f.Guards != nil {
		object.Spec.Guards = []v1alpha1.GuardKind{} // None is not the default.
	}
	for _, guard := range f.Guards {
		object.Spec.Guards = append(object.Spec.Guards, v1alpha1.GuardKind(guard))
	}
	seen := map[string]bool{}
	for _, block := range shelf.Blocks {
		if seen[block.Model] || len(f.Models) > 0 && !slices.Contains(f.Models, block.Model) {
			continue
		}
		seen[block.Model] = true
		model := v1alpha1.DeviceModel{
			Name: strings.ToLower(block.Model), Driver: f.Driver, Template: f.Templates,
			Match:      v1alpha1.ModelMatch{Manufacturer: manufacturer, Model: block.Model},
			Attributes: map[string]v1alpha1.AttributeValue{driver.AttributeProductName: {String: &block.Model}},
		}
		if block.MemoryMiB > 0 {
			memory := resource.NewQuantity(block.MemoryMiB<<20, resource.BinarySI)
			model.Capacity = map[string]v1alpha1.Amount{"memory": v1alpha1.Amount(memory.String())}
		}
		object.Spec.Models = append(object.Spec.Models, model)
	}
	return object, t.err
}

// Place has a driver run on nodes.
func (b *backend) Place(d scenario.VendorDriver) error {
	b.settled = nil
	var t times
	run := rack.Driver{Name: d.Name, Latency: cmp.Or(t.read(d.Notices), notices), Nodes: map[string][]resourceapi.Device{}}
	for _, node := range d.Nodes {
		run.Nodes[node] = nil
		for _, item := range d.Own {
			run.Nodes[node] = append(run.Nodes[node], driver.Own(node, service.Device{
				Block: item.Name, Model: item.Model, MemoryMiB: item.Memory.Value() >> 20,
			}))
		}
	}
	if t.err != nil {
		return t.err
	}
	// The drivers of a fabric need its kinds and roles.
	if err := b.sandbox.Rack().Start(b.ctx); err != nil {
		return err
	}
	return b.sandbox.Rack().RunDriver(b.ctx, run)
}

// Show has the drivers publish devices otherwise.
func (b *backend) Show(l scenario.ShelfLook) error {
	b.settled = nil
	look := &driver.Look{Device: l.Device, Without: l.Without, Sets: l.Sets}
	plain := l.Device.DeepCopy()
	plain.Name = ""
	if apiequality.Semantic.DeepEqual(*plain, resourceapi.Device{}) && len(l.Without)+len(l.Sets) == 0 {
		look = nil
	}
	shelf := b.sandbox.Rack().Shelf()
	for _, name := range l.Names {
		if !slices.ContainsFunc(shelf.Blocks, func(block description.Block) bool { return block.ID == name }) {
			return fmt.Errorf("the shelf has no device %s", name)
		}
		for _, d := range b.sandbox.Rack().Drivers() {
			d.Show(name, look)
		}
	}
	return nil
}

// Models returns what Fabrics say of their models.
func (b *backend) Models() ([]scenario.FabricModel, error) {
	fabrics, err := b.sandbox.Rack().Fabrics(b.ctx)
	if err != nil {
		return nil, err
	}
	var all []scenario.FabricModel
	for i := range fabrics.Fabrics {
		f := &fabrics.Fabrics[i]
		for _, m := range f.Status.Models {
			model := scenario.FabricModel{Fabric: f.Name, Name: m.Name}
			if c := meta.FindStatusCondition(m.Conditions, v1alpha1.ModelAsPromised); c != nil {
				model.Message = c.Message
			}
			for _, d := range m.Withheld {
				model.Withheld = append(model.Withheld, path.Base(d.Device))
			}
			all = append(all, model)
		}
	}
	return all, nil
}

// Script adds a fault, or ends all.
func (b *backend) Script(f scenario.ShelfFault) error {
	redfish := b.sandbox.Rack().Redfish()
	if redfish == nil {
		return fmt.Errorf("the Redfish service does not run")
	}
	if f.Kind == "" {
		redfish.ClearFaults()
		return nil
	}
	var t times
	fault := description.Fault{
		Kind: description.FaultKind(f.Kind), Operation: description.Operation(f.Operation), Block: f.Device, Host: f.Host,
		To: f.To, After: description.Duration(t.read(f.After)), Nth: f.Nth, Times: f.Times,
	}
	if t.err != nil {
		return t.err
	}
	return redfish.AddFault(fault)
}

// Attachments returns the attachments with the shelf's names for devices.
func (b *backend) Attachments() ([]scenario.Attachment, error) {
	fabrics, err := b.sandbox.Rack().Fabrics(b.ctx)
	if err != nil {
		return nil, err
	}
	var all []scenario.Attachment
	for i := range fabrics.Attachments {
		a := &fabrics.Attachments[i]
		attachment := scenario.Attachment{
			Device: path.Base(a.Spec.Device), Node: a.Spec.Node,
			Phase: cmp.Or(string(a.Status.Phase), "Allocated"), Reason: a.Status.Reason,
		}
		if claim := a.Spec.Claim; claim != nil {
			attachment.Namespace, attachment.Claim = claim.Namespace, claim.Name
		}
		if target := a.Status.Target; target != nil {
			attachment.Target = target.Pool + "/" + target.Device
		}
		all = append(all, attachment)
	}
	slices.SortFunc(all, func(a, b scenario.Attachment) int { return cmp.Compare(a.Device, b.Device) })
	return all, nil
}

// ShelfDevices returns where the devices are, as it really is.
func (b *backend) ShelfDevices() ([]scenario.ShelfDevice, error) {
	state, err := b.sandbox.Rack().ShelfState()
	if err != nil {
		return nil, err
	}
	seenBy := map[string]string{}
	shelf := b.sandbox.Rack().Shelf()
	for _, host := range shelf.Hosts {
		sees, err := b.sandbox.Rack().Sees(host.ID)
		if err != nil {
			return nil, err
		}
		for _, d := range sees {
			seenBy[d.Block] = host.ID
		}
	}
	var devices []scenario.ShelfDevice
	for _, block := range shelf.Blocks {
		devices = append(devices, scenario.ShelfDevice{
			Name: block.ID, UUID: block.UUID, Host: state[block.ID].Host, SeenBy: seenBy[block.ID],
		})
	}
	return devices, nil
}
