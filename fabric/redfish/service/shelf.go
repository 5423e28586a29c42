// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"kerf.dev/kerf/fabric/redfish/description"
)

// block is a device on the shelf.
type block struct {
	description.Block
	// host is the host it is composed to, for the manager; empty: it is free.
	host string
	// seenBy is the host that has it on its bus; empty: none.
	seenBy string
	// broken says that it fell off the bus. It stays so until it is repaired.
	broken bool
	// hidden says that it did not appear to the host that it is composed to, and will not.
	hidden   bool
	reserved bool
	// work is the operation that is going on with it, or nil.
	work *operation
	// attachment counts the attaches, so that what was to happen to an old one does not happen to the next.
	attachment int
	// address is where the device is on the bus of whatever host sees it.
	address string
}

// stock fills the shelf as described.
func (s *Service) stock() {
	for _, h := range s.config.Hosts {
		s.hosts[h.ID] = &h
	}
	for i, b := range s.config.Blocks {
		s.blocks[b.ID] = &block{
			Block: b, host: b.Host, seenBy: b.Host, reserved: b.Reserved,
			address: fmt.Sprintf("%04x:%02x:00.0", i/128, 64+i%128),
		}
	}
}

// Device is an attached device as its host sees it.
type Device struct {
	// Block is the ID of the resource block, which a real host does not know.
	Block        string `json:"block"`
	Kind         string `json:"kind"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	SerialNumber string `json:"serialNumber"`
	UUID         string `json:"uuid"`
	MemoryMiB    int64  `json:"memoryMiB,omitempty"`
	// PCIAddress is domain:bus:device.function.
	PCIAddress string `json:"pciAddress"`
}

// Sight is all that a host sees, in the order of the description.
type Sight struct {
	Host    string   `json:"host"`
	Devices []Device `json:"devices"`
}

// Sees returns what a host really sees, whatever the manager believes.
func (s *Service) Sees(host string) []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sees(host)
}

func (s *Service) sees(host string) []Device {
	var devices []Device
	for _, spec := range s.config.Blocks {
		if b := s.blocks[spec.ID]; b.seenBy == host {
			devices = append(devices, b.device())
		}
	}
	return devices
}

func (b *block) device() Device {
	return Device{
		Block: b.ID, Kind: b.Kind, Manufacturer: b.Manufacturer, Model: b.Model, PartNumber: b.PartNumber,
		SerialNumber: b.SerialNumber, UUID: b.UUID, MemoryMiB: b.MemoryMiB, PCIAddress: b.address,
	}
}

// see changes which host sees a block.
func (s *Service) see(b *block, host string) {
	before := b.seenBy
	if before == host {
		return
	}
	b.seenBy = host
	for _, h := range []string{before, host} {
		if h != "" {
			s.sights = append(s.sights, Sight{Host: h, Devices: s.sees(h)})
		}
	}
}

// tell reports to the observer what hosts see now. The caller does not hold the lock.
func (s *Service) tell() {
	s.observing.Lock()
	defer s.observing.Unlock()
	for {
		s.mu.Lock()
		sights := s.sights
		s.sights = nil
		s.mu.Unlock()
		if len(sights) == 0 {
			return
		}
		for _, sight := range sights {
			if s.options.Observer != nil {
				s.options.Observer(sight)
			}
		}
	}
}

// Vanish takes a device off the bus of whatever host sees it. It stays composed, and is unhealthy until repaired.
func (s *Service) Vanish(blockID string) error {
	return s.change(blockID, s.vanish)
}

// Repair makes a device that vanished, or never appeared, healthy again. Its host sees it if it is composed.
func (s *Service) Repair(blockID string) error {
	return s.change(blockID, func(b *block) {
		b.broken, b.hidden = false, false
		s.see(b, b.host)
	})
}

// Reserve sets or clears the reservation of a block as another client would.
func (s *Service) Reserve(blockID string, reserved bool) error {
	return s.change(blockID, func(b *block) { b.reserved = reserved })
}

// Compose puts a block on a host, or takes it away if host is empty, as an operator at another console would: at once,
// unless an operation works on it.
func (s *Service) Compose(blockID, hostID string) error {
	s.mu.Lock()
	h, b := s.hosts[hostID], s.blocks[blockID]
	var err error
	switch {
	case hostID != "" && h == nil:
		err = fmt.Errorf("there is no host %q", hostID)
	case b != nil && b.work != nil:
		err = fmt.Errorf("block %q: an operation is going on", blockID)
	case b != nil && h != nil && !description.Overlap(b.Zones, h.Zones):
		err = fmt.Errorf("block %q: host %q is in none of its zones", blockID, hostID)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.change(blockID, func(b *block) {
		s.compose(b, hostID)
		s.see(b, hostID)
	})
}

// compose changes what the manager believes, and nothing else.
func (s *Service) compose(b *block, host string) {
	b.attachment++
	b.host, b.hidden = host, false
}

func (s *Service) vanish(b *block) {
	b.broken = true
	s.see(b, "")
}

// change does something to a block, with all that follows from a change.
func (s *Service) change(id string, do func(*block)) error {
	s.mu.Lock()
	b := s.blocks[id]
	if b == nil {
		s.mu.Unlock()
		return fmt.Errorf("there is no block %q", id)
	}
	do(b)
	s.changed()
	s.mu.Unlock()
	s.tell()
	return nil
}

// composed lists the IDs of the blocks of a host, in the order of the description.
func (s *Service) composed(host string) []string {
	var ids []string
	for _, spec := range s.config.Blocks {
		if s.blocks[spec.ID].host == host {
			ids = append(ids, spec.ID)
		}
	}
	return ids
}
