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

// shelf is what the manager believes of hosts and blocks, and what hosts see of them.
type shelf struct {
	config *description.Config
	hosts  map[string]*description.Host
	blocks map[string]*block
	row    []*block // the blocks in the order of the description
	sights []Sight  // not yet told to the observer
}

// newShelf makes one as described.
func newShelf(config *description.Config) *shelf {
	c := &shelf{config: config, hosts: map[string]*description.Host{}, blocks: map[string]*block{}}
	for _, h := range config.Hosts {
		c.hosts[h.ID] = &h
	}
	for i, b := range config.Blocks {
		made := &block{
			Block: b, host: b.Host, seenBy: b.Host, reserved: b.Reserved,
			address: fmt.Sprintf("%04x:%02x:00.0", i/128, 64+i%128),
		}
		c.blocks[b.ID], c.row = made, append(c.row, made)
	}
	return c
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
	return s.shelf.sees(host)
}

func (c *shelf) sees(host string) []Device {
	var devices []Device
	for _, b := range c.row {
		if b.seenBy == host {
			devices = append(devices, b.device())
		}
	}
	return devices
}

func (c *shelf) sightOfAll() []Sight {
	var all []Sight
	for _, h := range c.config.Hosts {
		all = append(all, Sight{Host: h.ID, Devices: append([]Device{}, c.sees(h.ID)...)})
	}
	return all
}

func (b *block) device() Device {
	return Device{
		Block: b.ID, Kind: b.Kind, Manufacturer: b.Manufacturer, Model: b.Model, PartNumber: b.PartNumber,
		SerialNumber: b.SerialNumber, UUID: b.UUID, MemoryMiB: b.MemoryMiB, PCIAddress: b.address,
	}
}

// see changes which host sees a block.
func (c *shelf) see(b *block, host string) {
	before := b.seenBy
	if before == host {
		return
	}
	b.seenBy = host
	for _, h := range []string{before, host} {
		if h != "" {
			c.sights = append(c.sights, Sight{Host: h, Devices: c.sees(h)})
		}
	}
}

// compose changes what the manager believes, and nothing else.
func (b *block) compose(host string) {
	b.attachment++
	b.host, b.hidden = host, false
}

func (c *shelf) vanish(b *block) {
	b.broken = true
	c.see(b, "")
}

// composed lists the blocks of a host, in the order of the description.
func (c *shelf) composed(host string) []*block {
	var found []*block
	for _, b := range c.row {
		if b.host == host {
			found = append(found, b)
		}
	}
	return found
}
