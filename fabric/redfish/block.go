// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"kerf.dev/kerf/fabric"
)

// block is what we read of a ResourceBlock. gofish has the same as schemas.ResourceBlock, but keeps the links to
// itself and follows each with a request.
type block struct {
	odata
	ResourceBlockType list[schemas.ResourceBlockType]
	CompositionStatus struct {
		CompositionState schemas.CompositionState
		Reserved         *bool // nil: the service has no reservations
	}
	Status status
	// Processors and PCIeDevices are links, or whole where the service has expanded them.
	Processors, PCIeDevices list[json.RawMessage]
	// ComputerSystems are those that the block consists of, unlike those that it is composed to.
	ComputerSystems list[schemas.Link]
	Links           struct {
		// ComputerSystems are those that it is composed to.
		ComputerSystems list[schemas.Link]
		Zones           list[schemas.Link]
	}
}

type status struct {
	Health schemas.Health
	State  schemas.State
}

func (s status) healthy() bool {
	healthy := s.Health == schemas.OKHealth || s.Health == ""
	switch s.State {
	case schemas.AbsentState, schemas.DisabledState, schemas.UnavailableOfflineState:
		healthy = false
	}
	return healthy
}

// system is what we read of a ComputerSystem.
type system struct {
	odata
	Name, HostName, UUID, SerialNumber string
	Links                              struct{ ResourceBlocks list[schemas.Link] }
	Actions                            struct {
		Add    schemas.ActionTarget `json:"#ComputerSystem.AddResourceBlock"`
		Remove schemas.ActionTarget `json:"#ComputerSystem.RemoveResourceBlock"`
	}
}

// zone is what we read of a Zone of ResourceBlocks.
type zone struct {
	odata
	Links struct{ ResourceBlocks list[schemas.Link] }
}

// component is what we read of a Processor or a PCIeDevice.
type component struct {
	odata
	Manufacturer, Model, PartNumber, SerialNumber, UUID string
	MemorySummary                                       struct{ TotalMemorySizeMiB int64 }
	ProcessorMemory                                     list[struct{ CapacityMiB int64 }]
	Links                                               struct{ PCIeDevice schemas.Link }
}

func (c *component) memoryMiB() int64 {
	if c.MemorySummary.TotalMemorySizeMiB > 0 {
		return c.MemorySummary.TotalMemorySizeMiB
	}
	var sum int64
	for _, memory := range c.ProcessorMemory {
		sum += memory.CapacityMiB
	}
	return sum
}

// task is what we read of a Task.
type task struct {
	odata
	TaskState   schemas.TaskState
	TaskMonitor string
	Messages    list[struct{ Message string }]
}

// message is the last that the service has to say about a task.
func (t *task) message() string {
	if len(t.Messages) == 0 {
		return ""
	}
	return t.Messages[len(t.Messages)-1].Message
}

// actionInfo is what we read of an ActionInfo.
type actionInfo struct {
	Parameters list[struct {
		Name     string
		Required bool
		DataType schemas.ParameterTypes
	}]
}

// standsForMachine tells that a block is a machine in the composition service, not a device.
func (b *block) standsForMachine() bool {
	return len(b.ComputerSystems) > 0 || slices.Contains(b.ResourceBlockType, schemas.ComputerSystemResourceBlockType) ||
		slices.Contains(b.ResourceBlockType, schemas.ComputeResourceBlockType)
}

// machine is where the block is composed to, empty where it is free.
func (b *block) machine() fabric.MachineRef {
	if len(b.Links.ComputerSystems) == 0 {
		return ""
	}
	return fabric.MachineRef(b.Links.ComputerSystems[0])
}

func (b *block) composedTo(machine fabric.MachineRef) bool {
	return slices.Contains(b.Links.ComputerSystems, schemas.Link(machine))
}

func (b *block) busy() bool {
	return b.CompositionStatus.CompositionState == schemas.ComposingCompositionState
}

func (b *block) reserved() bool {
	return b.CompositionStatus.Reserved != nil && *b.CompositionStatus.Reserved
}

// usable tells that nothing is known to be wrong with the block.
func (b *block) usable() bool {
	switch b.CompositionStatus.CompositionState {
	case schemas.FailedCompositionState, schemas.UnavailableCompositionState:
		return false
	}
	return b.Status.healthy()
}

// device is the block as the planner sees it, with the identity of what it consists of.
func (b *block) device(zones []string, components []component) fabric.Device {
	d := fabric.Device{
		Ref: fabric.DeviceRef(b.ID), Zones: zones, Machine: b.machine(), Busy: b.busy(), Healthy: b.usable(),
		Reserved: b.reserved() && b.machine() == "",
	}
	switch {
	case len(b.Processors) > 0:
		d.Kind = "Processor"
	case len(b.PCIeDevices) > 0:
		d.Kind = "PCIeDevice"
	case len(b.ResourceBlockType) > 0:
		d.Kind = string(b.ResourceBlockType[0])
	}
	for i, c := range components {
		if i == 0 {
			d.Manufacturer, d.Model, d.PartNumber = c.Manufacturer, c.Model, c.PartNumber
		}
		d.MemoryMiB += c.memoryMiB()
	}
	if len(components) == 1 {
		d.SerialNumber, d.UUID = components[0].SerialNumber, components[0].UUID
	}
	return d
}

// all decodes resources of one kind.
func all[T any](kind string, raw []json.RawMessage) ([]T, error) {
	decoded := make([]T, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &decoded[i]); err != nil {
			var about odata
			_ = json.Unmarshal(r, &about) // Its @odata.id was there before.
			return nil, fmt.Errorf("%s %s: %w", kind, about.ID, err)
		}
	}
	return decoded, nil
}
