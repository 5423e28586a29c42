// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// Conflict is a device that several claims hold although only one can: another
// scheduler allocated it at the same time.
type Conflict struct {
	Device inventory.DeviceID
	Claims []inventory.Holder
}

// Conflicts watches claims for devices that were given out twice. The
// SharedDRAManager cannot tell: it takes such a device for free as soon as one of
// its claims is gone, and the next pod would be the victim.
type Conflicts struct {
	mutex sync.Mutex
	// holders by device, then by claim.
	holders map[inventory.DeviceID]map[types.UID]*holder
	// devices that were given out twice and are still held; the value is set
	// once that was reported.
	devices map[inventory.DeviceID]bool
}

// holder is a claim that holds a device.
type holder struct {
	inventory.Holder
	// dedicated is set where it holds all of the device.
	dedicated bool
	// node is where alone it can use it, empty where that is not one node.
	node string
}

// NewConflicts returns what knows of no claim yet.
func NewConflicts() *Conflicts {
	return &Conflicts{holders: map[inventory.DeviceID]map[types.UID]*holder{}, devices: map[inventory.DeviceID]bool{}}
}

// Replace takes note of a claim that has come, changed or gone; before or after is nil then.
func (c *Conflicts) Replace(before, after *resourceapi.ResourceClaim) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, h := range holdsOf(before) {
		delete(c.holders[h.Device], h.Holder.UID)
		if len(c.holders[h.Device]) == 0 {
			delete(c.holders, h.Device)
			delete(c.devices, h.Device)
		}
	}
	for _, h := range holdsOf(after) {
		of := c.holders[h.Device]
		if of == nil {
			of = map[types.UID]*holder{}
			c.holders[h.Device] = of
		}
		if of[h.Holder.UID] == nil {
			of[h.Holder.UID] = &holder{Holder: h.Holder, node: h.Node}
		}
		of[h.Holder.UID].dedicated = of[h.Holder.UID].dedicated || h.ShareID == ""
		if _, known := c.devices[h.Device]; !known && conflicting(of) {
			c.devices[h.Device] = false
		}
	}
}

func holdsOf(claim *resourceapi.ResourceClaim) []inventory.Hold {
	if claim == nil {
		return nil
	}
	return inventory.HoldsOf(claim)
}

// conflicting reports whether somebody who holds all of a device is not the only
// one who holds it.
func conflicting(holders map[types.UID]*holder) bool {
	if len(holders) < 2 {
		return false
	}
	for _, h := range holders {
		if h.dedicated {
			return true
		}
	}
	return false
}

// node returns the only node on which the claims that hold the device can use it, empty
// where there are several or none is known.
func (c *Conflicts) node(id inventory.DeviceID) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	node, first := "", true
	for _, h := range c.holders[id] {
		if !first && h.node != node {
			return ""
		}
		node, first = h.node, false
	}
	return node
}

// held returns the devices that were given out twice and are still held by
// somebody.
func (c *Conflicts) held() []inventory.DeviceID {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.SortedFunc(maps.Keys(c.devices), func(a, b inventory.DeviceID) int { return cmp.Compare(a.String(), b.String()) })
}

// unreported returns the conflicts that it has not returned before. Those that
// are over by now are not worth a word: after an interrupted watch changes arrive
// in any order.
func (c *Conflicts) unreported() []Conflict {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var conflicts []Conflict
	for id, reported := range c.devices {
		if reported || !conflicting(c.holders[id]) {
			continue
		}
		c.devices[id] = true
		conflict := Conflict{Device: id}
		for _, h := range c.holders[id] {
			conflict.Claims = append(conflict.Claims, h.Holder)
		}
		slices.SortFunc(conflict.Claims, func(a, b inventory.Holder) int { return cmp.Compare(a.String(), b.String()) })
		conflicts = append(conflicts, conflict)
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int { return cmp.Compare(a.Device.String(), b.Device.String()) })
	return conflicts
}
