// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"kerf.dev/kerf/fabric"
)

// Inventory reads all machines and devices, in the order of their names. It gives back reservations that an
// interruption has left; see the package documentation. The error is a *fabric.BusyError where the service asks to be
// left alone.
func (m *Manager) Inventory(ctx context.Context) (fabric.Inventory, error) {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	inventory, err := m.inventory(ctx)
	if busy := busyError(err); busy != nil {
		return fabric.Inventory{}, busy
	}
	if err != nil {
		return fabric.Inventory{}, m.session.hideText(fmt.Errorf("read the inventory of %s: %w", m.options.Endpoint, err))
	}
	m.cache.sweep()
	return inventory, nil
}

func (m *Manager) inventory(ctx context.Context) (fabric.Inventory, error) {
	began := m.tick()
	m.cache.begin()
	l, err := m.explore(ctx)
	if err != nil {
		return fabric.Inventory{}, err
	}
	var blocks []block
	var systems []system
	var zones []zone
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() error { return readAll(reading, m, "resource block", l.blocks, 2, &blocks) })
	group.Go(func() error { return readAll(reading, m, "system", l.systems, 1, &systems) })
	if l.zones != "" {
		group.Go(func() error { return readAll(reading, m, "resource zone", l.zones, 1, &zones) })
	}
	if err := group.Wait(); err != nil {
		return fabric.Inventory{}, err
	}
	zonesOf, err := membership(zones, blocks)
	if err != nil {
		return fabric.Inventory{}, err
	}
	found, err := machines(systems, blocks, zonesOf)
	if err != nil {
		return fabric.Inventory{}, err
	}
	devices, err := m.devices(ctx, began, blocks, zonesOf)
	if err != nil {
		return fabric.Inventory{}, err
	}
	inventory := fabric.Inventory{Devices: devices, Machines: found}
	if err := checkTexts(&inventory); err != nil {
		return fabric.Inventory{}, err
	}
	slices.SortFunc(inventory.Devices, func(a, b fabric.Device) int { return cmp.Compare(a.Ref, b.Ref) })
	slices.SortFunc(inventory.Machines, func(a, b fabric.Machine) int { return cmp.Compare(a.Ref, b.Ref) })
	return inventory, nil
}

func readAll[T any](ctx context.Context, m *Manager, kind, path string, levels int, into *[]T) error {
	raw, err := m.members(ctx, path, levels)
	if err != nil {
		return err
	}
	*into, err = all[T](kind, raw)
	return err
}

// membership tells the zones of each block, in order. Zones name their blocks and blocks their zones; either will do.
func membership(zones []zone, blocks []block) (map[string][]string, error) {
	of, places := map[string][]string{}, 0
	for _, z := range zones {
		for _, l := range z.Links.ResourceBlocks {
			of[l.String()] = append(of[l.String()], z.ID)
		}
		places += len(z.Links.ResourceBlocks)
	}
	for _, b := range blocks {
		for _, l := range b.Links.Zones {
			of[b.ID] = append(of[b.ID], l.String())
		}
		places += len(b.Links.Zones)
	}
	if places > maxPlaces {
		return nil, limit("resource blocks are in zones more than %d times", maxPlaces)
	}
	for id := range of {
		of[id] = sortedOnce(of[id])
	}
	return of, nil
}

// machines lists the systems. A machine is in the zones of the block that stands for it. If there is none, the service
// does not tell, and the machine is taken to be in all zones: the service refuses what it cannot do.
func machines(systems []system, blocks []block, zonesOf map[string][]string) ([]fabric.Machine, error) {
	zones, every, places := map[string][]string{}, []string{}, 0
	for _, b := range blocks {
		every = append(every, zonesOf[b.ID]...)
		if places += len(b.ComputerSystems) * len(zonesOf[b.ID]); places > maxPlaces {
			return nil, limit("systems are in zones more than %d times", maxPlaces)
		}
		for _, l := range b.ComputerSystems {
			zones[l.String()] = append(zones[l.String()], zonesOf[b.ID]...)
		}
	}
	every = sortedOnce(every)
	var found []fabric.Machine
	for _, s := range systems {
		// The same list for all that are everywhere: each with its own would be their product.
		in, told := zones[s.ID]
		if !told {
			in = every
		} else {
			in = sortedOnce(in)
		}
		found = append(found, fabric.Machine{
			Ref: fabric.MachineRef(s.ID), Name: s.Name, UUID: s.UUID, SerialNumber: s.SerialNumber, HostName: s.HostName, Zones: in,
		})
	}
	return found, nil
}

func sortedOnce(all []string) []string {
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

// devices lists the blocks that are devices, with their identity.
func (m *Manager) devices(ctx context.Context, began uint64, blocks []block, zonesOf map[string][]string) ([]fabric.Device, error) {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return b.standsForMachine() })
	found := make([]fabric.Device, len(blocks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.options.Requests)
	for i := range blocks {
		group.Go(func() error {
			b := &blocks[i]
			components, err := m.components(ctx, b)
			unreadable := err != nil && isItsOwn(err)
			if unreadable {
				components = m.lastComponents(b)
			} else if err != nil {
				return err
			}
			found[i] = b.device(zonesOf[b.ID], components)
			if unreadable && len(components) == 0 {
				found[i].Healthy = false
			}
			return m.tidy(ctx, began, b, &found[i])
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// isItsOwn tells that what failed is one resource, not the service: one bad device must not hide the others.
func isItsOwn(err error) bool {
	var lost *transportError
	return !errors.As(err, &lost) && busyError(err) == nil
}

// lastComponents is what a block consisted of when that could be read last.
func (m *Manager) lastComponents(b *block) []component {
	kept, ok := m.cache.get(componentsKey(b))
	var components []component
	if !ok || json.Unmarshal(kept.body, &components) != nil {
		return nil
	}
	return components
}

func componentsKey(b *block) string { return b.ID + "#components" }

// components reads what a block consists of. What did not come with the block is asked for again only when the block
// has changed.
func (m *Manager) components(ctx context.Context, b *block) ([]component, error) {
	parts := b.Processors
	if len(parts) == 0 {
		// The PCIe devices of a block with processors are the processors once more.
		parts = b.PCIeDevices
	}
	inline, whole, err := delivered(parts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.ID, err)
	}
	if whole {
		return inline, nil
	}
	key := componentsKey(b)
	var components []component
	if kept, ok := m.cache.get(key); ok && kept.etag == b.ETag {
		return components, json.Unmarshal(kept.body, &components)
	}
	for _, part := range parts {
		c, err := m.component(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.ID, err)
		}
		if c != nil {
			components = append(components, *c)
		}
	}
	body, err := json.Marshal(components)
	if err != nil {
		return nil, err
	}
	m.cache.put(key, known{etag: b.ETag, body: body})
	return components, nil
}

// delivered decodes the components that came with their block, and tells whether nothing more is to be read.
func delivered(parts []json.RawMessage) (components []component, whole bool, err error) {
	for _, part := range parts {
		var c component
		if err := json.Unmarshal(part, &c); err != nil {
			return nil, false, err
		}
		if isLink(part) || c.incomplete() {
			return nil, false, nil
		}
		components = append(components, c)
	}
	return components, true, nil
}

// incomplete tells that a processor does not say who it is, and its PCIe device may.
func (c *component) incomplete() bool {
	return c.Links.PCIeDevice != "" && (c.UUID == "" || c.SerialNumber == "")
}

// component decodes a processor or a PCIe device, and reads what is missing. It is nil where there is none any more.
func (m *Manager) component(ctx context.Context, raw json.RawMessage) (*component, error) {
	if isLink(raw) {
		var err error
		if raw, err = m.linked(ctx, raw); err != nil || raw == nil {
			return nil, err
		}
	}
	var c component
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	if !c.incomplete() {
		return &c, nil
	}
	var behind component
	body, err := m.current(ctx, c.Links.PCIeDevice.String())
	if isGone(err) {
		return &c, nil
	}
	if err == nil {
		err = json.Unmarshal(body, &behind)
	}
	if err != nil {
		return nil, err
	}
	c.UUID, c.SerialNumber = cmp.Or(c.UUID, behind.UUID), cmp.Or(c.SerialNumber, behind.SerialNumber)
	c.Manufacturer, c.Model = cmp.Or(c.Manufacturer, behind.Manufacturer), cmp.Or(c.Model, behind.Model)
	c.PartNumber = cmp.Or(c.PartNumber, behind.PartNumber)
	return &c, nil
}
