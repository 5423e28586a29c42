// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// ClaimState is a claim: what it asks for, and what it has.
type ClaimState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Entry is the pod's spec.resourceClaims entry, Template the template that
	// the claim was, or would be, made from.
	Entry    string `json:"entry,omitempty"`
	Template string `json:"template,omitempty"`
	// Special is set for the claim with the devices that serve extended resources.
	Special bool `json:"special,omitempty"`
	// Missing is set where the claim does not exist yet.
	Missing   bool           `json:"missing,omitempty"`
	Allocated bool           `json:"allocated"`
	Requests  []ClaimRequest `json:"requests,omitempty"`
	// Constraints say what devices share or differ in, with the values.
	Constraints []string `json:"constraints,omitempty"`
	// Nodes says where the allocation can be used.
	Nodes       string   `json:"nodes,omitempty"`
	ReservedFor []string `json:"reservedFor,omitempty"`
}

// ClaimRequest is a request with the devices that it was given.
type ClaimRequest struct {
	Name string `json:"name"`
	// For says what the devices are for, where the name does not: the extended
	// resource and the containers of the pod.
	For  string `json:"for,omitempty"`
	Asks string `json:"asks"`
	// Alternative is what was chosen of a prioritized list, Rank its position
	// from 1, Of the length of the list.
	Alternative string `json:"alternative,omitempty"`
	Rank        int    `json:"rank,omitempty"`
	Of          int    `json:"of,omitempty"`
	// PassedOver says of each better alternative why it cannot be had now.
	PassedOver []string          `json:"passedOver,omitempty"`
	Devices    []AllocatedDevice `json:"devices,omitempty"`
}

// AllocatedDevice is one result of an allocation.
type AllocatedDevice struct {
	Device string `json:"device"` // driver/pool/device
	// Facts are attributes and capacity as published now.
	Facts       []string          `json:"facts,omitempty"`
	AdminAccess bool              `json:"adminAccess,omitempty"`
	Consumed    map[string]string `json:"consumed,omitempty"`
	// Conditions are the binding and binding failure conditions and their state.
	Conditions []string     `json:"conditions,omitempty"`
	Taints     []TaintState `json:"taints,omitempty"`
	// Gone is set where the device is not published any more.
	Gone bool `json:"gone,omitempty"`
}

// ClaimOptions are what is known beyond the claim.
type ClaimOptions struct {
	// Device returns a published device, nil where there is none.
	Device func(inventory.DeviceID) *inventory.Device
	// Claimant and Visible are those of [Options].
	Claimant func(types.UID) (inventory.Holder, bool)
	Visible  func(namespace string) bool
	// PassedOver are reasons by request/alternative, see simulate.PassedOver.
	PassedOver map[string]string
	// Called returns what a request is for, empty where its name says it. It may be nil.
	Called func(request string) string
}

// Claim describes a claim.
func Claim(claim *resourceapi.ResourceClaim, o ClaimOptions) ClaimState {
	state := ClaimState{Namespace: claim.Namespace, Name: claim.Name, Allocated: claim.Status.Allocation != nil}
	for i := range claim.Spec.Devices.Requests {
		state.Requests = append(state.Requests, o.request(claim, &claim.Spec.Devices.Requests[i]))
	}
	for i := range claim.Spec.Devices.Constraints {
		state.Constraints = append(state.Constraints, o.constraint(claim, &claim.Spec.Devices.Constraints[i]))
	}
	if a := claim.Status.Allocation; a != nil {
		state.Nodes = "every node"
		if a.NodeSelector != nil {
			state.Nodes = selectorText(a.NodeSelector)
		}
	}
	for _, r := range claim.Status.ReservedFor {
		state.ReservedFor = append(state.ReservedFor, r.Resource+"/"+r.Name)
	}
	return state
}

func (o *ClaimOptions) request(c *resourceapi.ResourceClaim, in *resourceapi.DeviceRequest) ClaimRequest {
	r := ClaimRequest{Name: in.Name, Asks: asks(in)}
	if o.Called != nil {
		r.For = o.Called(in.Name)
	}
	for _, result := range claim.Results(c) {
		request, alternative, _ := strings.Cut(result.Request, "/")
		if request != in.Name {
			continue
		}
		r.Alternative = alternative
		r.Devices = append(r.Devices, o.device(c, result))
	}
	if r.Alternative == "" {
		return r
	}
	r.Of = len(in.FirstAvailable)
	r.Rank = 1 + slices.IndexFunc(in.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool { return sub.Name == r.Alternative })
	for _, sub := range in.FirstAvailable[:max(0, r.Rank-1)] {
		if why, found := o.PassedOver[in.Name+"/"+sub.Name]; found {
			r.PassedOver = append(r.PassedOver, sub.Name+": "+why)
		}
	}
	return r
}

// asks is "2 devices of class gpu", or one for each alternative.
func asks(in *resourceapi.DeviceRequest) string {
	if e := in.Exactly; e != nil {
		text := quantityOf(e.AllocationMode, e.Count) + " of class " + e.DeviceClassName
		if e.AdminAccess != nil && *e.AdminAccess {
			text += " with admin access"
		}
		return text
	}
	var texts []string
	for _, sub := range in.FirstAvailable {
		texts = append(texts, sub.Name+" ("+quantityOf(sub.AllocationMode, sub.Count)+" of class "+sub.DeviceClassName+")")
	}
	return "the first of " + strings.Join(texts, ", ")
}

func quantityOf(mode resourceapi.DeviceAllocationMode, n int64) string {
	if mode == resourceapi.DeviceAllocationModeAll {
		return "all devices"
	}
	return explain.Count(int(max(1, n)), "device")
}

func (o *ClaimOptions) device(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) AllocatedDevice {
	id := inventory.IDOf(result)
	state := AllocatedDevice{Device: id.String(), AdminAccess: result.AdminAccess != nil && *result.AdminAccess}
	for name, q := range result.ConsumedCapacity {
		if state.Consumed == nil {
			state.Consumed = map[string]string{}
		}
		state.Consumed[string(name)] = inventory.QuantityText(q)
	}
	state.Conditions = bindingConditions(claim, result)
	d := o.published(id)
	if d == nil {
		state.Gone = true
		return state
	}
	state.Facts, state.Taints = facts(d), taintsOf(&explain.Options{Claimant: o.Claimant, Visible: o.Visible}, d)
	return state
}

func (o *ClaimOptions) published(id inventory.DeviceID) *inventory.Device {
	if o.Device == nil {
		return nil
	}
	return o.Device(id)
}

// facts are the attributes, then the capacity of a device, by name.
func facts(d *inventory.Device) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Attributes)) {
		a := d.Spec.Attributes[name]
		texts = append(texts, string(name)+"="+valueText(&a))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Capacity)) {
		value := d.Spec.Capacity[name].Value
		texts = append(texts, string(name)+"="+inventory.QuantityText(value))
	}
	return texts
}

// valueText is the value of an attribute, a list in brackets.
func valueText(a *resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return explain.Value(*a.StringValue)
	case a.VersionValue != nil:
		return explain.Value(*a.VersionValue)
	case a.IntValue != nil:
		return fmt.Sprint(*a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint(*a.BoolValue)
	case a.StringValues != nil:
		return fmt.Sprint(explain.Values(a.StringValues))
	case a.VersionValues != nil:
		return fmt.Sprint(explain.Values(a.VersionValues))
	case a.IntValues != nil:
		return fmt.Sprint(a.IntValues)
	}
	return fmt.Sprint(a.BoolValues)
}

// constraint is "gpu and nic have the same pcieRoot: A", without the value where
// the claim has no devices.
func (o *ClaimOptions) constraint(c *resourceapi.ResourceClaim, in *resourceapi.DeviceConstraint) string {
	who, verbs := "all requests", "have"
	if len(in.Requests) > 0 {
		who, verbs = explain.ListAnd(in.Requests), explain.Verb(len(in.Requests), "has", "have")
	}
	text := who + " " + verbs
	attribute := in.DistinctAttribute
	if in.MatchAttribute != nil {
		attribute = in.MatchAttribute
		text += " the same "
	} else {
		text += " different "
	}
	if attribute == nil {
		return text + "attributes"
	}
	text += string(*attribute)
	var values []string
	for _, result := range claim.Results(c) {
		base, _, _ := strings.Cut(result.Request, "/")
		if len(in.Requests) > 0 && !slices.Contains(in.Requests, base) && !slices.Contains(in.Requests, result.Request) {
			continue
		}
		d := o.published(inventory.IDOf(result))
		if d == nil {
			continue
		}
		if value := attributeOf(d, *attribute); value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return text
	}
	return text + ": " + explain.List(values)
}

// attributeOf is the value of a device's attribute, empty where it has none. The
// driver's domain may be left out of published names.
func attributeOf(d *inventory.Device, name resourceapi.FullyQualifiedName) string {
	_, a, found := inventory.Named(d.Spec.Attributes, d.ID.Driver, resourceapi.QualifiedName(name))
	if !found {
		return ""
	}
	return valueText(&a)
}

// Text is the claim in a few lines.
func (c *ClaimState) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	title := fmt.Sprintf("claim %s/%s", c.Namespace, c.Name)
	if c.Template != "" {
		title += " from template " + c.Template
	}
	if c.Special {
		title += " for extended resources"
	}
	switch {
	case c.Missing:
		title += ", not created yet"
	case c.Allocated:
		title += ", allocated"
	default:
		title += ", not allocated"
	}
	line("%s", title)
	for i := range c.Requests {
		c.Requests[i].write(line)
	}
	for _, constraint := range c.Constraints {
		line("  %s", constraint)
	}
	if c.Nodes != "" {
		line("  usable on %s", c.Nodes)
	}
	if len(c.ReservedFor) > 0 {
		line("  reserved for %s", explain.ListAnd(c.ReservedFor))
	}
	return b.String()
}

func (r *ClaimRequest) write(line func(string, ...any)) {
	line("  %s: %s", cmp.Or(r.For, r.Name), r.Asks)
	if r.Alternative != "" {
		line("    got %s, alternative %d of %d", r.Alternative, r.Rank, r.Of)
	}
	for _, passed := range r.PassedOver {
		line("    as things are now, not %s", passed)
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		line("    %s%s", d.Device, d.remarks())
		for _, fact := range lines(d.Facts, 100) {
			line("      %s", fact)
		}
		for _, condition := range d.Conditions {
			line("      %s", condition)
		}
		for _, taint := range taintWords(d.Taints) {
			line("      %s", taint)
		}
	}
}

func (d *AllocatedDevice) remarks() string {
	var text string
	if d.AdminAccess {
		text += " (admin access)"
	}
	for _, name := range slices.Sorted(maps.Keys(d.Consumed)) {
		text += fmt.Sprintf(" %s=%s", name, d.Consumed[name])
	}
	if d.Gone {
		text += " (not published any more)"
	}
	return text
}

// lines joins words with commas into lines of about that width.
func lines(words []string, width int) []string {
	var found []string
	for _, word := range words {
		if n := len(found); n > 0 && len(found[n-1])+len(word)+2 <= width {
			found[n-1] += ", " + word
		} else {
			found = append(found, word)
		}
	}
	return found
}
