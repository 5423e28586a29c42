// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"kerf.dev/kerf/fabric/redfish/description"
)

func (c *shelf) getCompositionService(*http.Request) resource {
	return resource{
		"@odata.id": compositionPath, "@odata.type": "#CompositionService.v1_2_2.CompositionService",
		"Id": "CompositionService", "Name": "Composition Service", "ServiceEnabled": true, "Status": health(true),
		"ResourceBlocks": link(blocksPath), "ResourceZones": link(zonesPath),
	}
}

// blockIDs lists all blocks, also those that stand for hosts, or those of a zone.
func (c *shelf) blockIDs(zone string) []string {
	var ids []string
	if c.config.Has(description.FeatureHostBlocks) {
		for _, h := range c.config.Hosts {
			if zone == "" || slices.Contains(h.Zones, zone) {
				ids = append(ids, h.ID)
			}
		}
	}
	for _, b := range c.row {
		if zone == "" || slices.Contains(b.Zones, zone) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

func (c *shelf) getBlocks(*http.Request) resource {
	return collection(blocksPath, "ResourceBlockCollection", c.blockIDs(""), c.blockNamed)
}

func (c *shelf) getBlock(r *http.Request) resource { return c.blockNamed(r.PathValue("block")) }

func (c *shelf) blockNamed(id string) resource {
	if b := c.blocks[id]; b != nil {
		return c.blockResource(b)
	}
	if h := c.hosts[id]; h != nil && c.config.Has(description.FeatureHostBlocks) {
		return hostBlockResource(h)
	}
	return nil
}

// blockAt finds the block of a path, which is not that of a host, or nil.
func (c *shelf) blockAt(path string) *block {
	id, ok := strings.CutPrefix(path, blocksPath+"/")
	if !ok {
		return nil
	}
	return c.blocks[id]
}

// hostBlockResource is what stands for a host in the composition service.
func hostBlockResource(h *description.Host) resource {
	system := links(systemsPath, h.ID)
	return resource{
		"@odata.id": blocksPath + "/" + h.ID, "@odata.type": "#ResourceBlock.v1_4_2.ResourceBlock",
		"Id": h.ID, "Name": h.ID, "ResourceBlockType": []string{"ComputerSystem", "Expansion"}, "Status": health(true),
		"CompositionStatus": resource{"CompositionState": "ComposedAndAvailable", "SharingCapable": true},
		"ComputerSystems":   system, "ComputerSystems@odata.count": 1,
		"Links": resource{"ComputerSystems": system, "Zones": links(zonesPath, h.Zones...)},
	}
}

func (c *shelf) blockResource(b *block) resource {
	path := blocksPath + "/" + b.ID
	status := resource{"CompositionState": "Unused", "MaxCompositions": 1, "NumberOfCompositions": 0, "SharingCapable": false}
	if c.config.Has(description.FeatureReserve) {
		status["Reserved"] = b.reserved
	}
	systems := []resource{}
	if b.host != "" {
		status["CompositionState"], status["NumberOfCompositions"] = "Composed", 1
		systems = links(systemsPath, b.host)
	}
	if b.work != nil {
		status["CompositionState"] = "Composing"
	}
	kind, blockType := "Processors", "Processor"
	if b.Kind == description.KindPCIeDevice {
		// Redfish has no type of block for devices of this kind.
		kind, blockType = "PCIeDevices", "Expansion"
	}
	return resource{
		"@odata.id": path, "@odata.type": "#ResourceBlock.v1_4_2.ResourceBlock",
		"Id": b.ID, "Name": b.ID, "ResourceBlockType": []string{blockType}, "Status": health(!b.broken),
		"CompositionStatus": status, kind: links(path+"/"+kind, "1"), kind + "@odata.count": 1,
		"Links": resource{"ComputerSystems": systems, "Zones": links(zonesPath, b.Zones...)},
	}
}

// patchBlock changes CompositionStatus.Reserved.
func (s *Service) patchBlock(r *http.Request, body []byte) (*reply, *refusal) {
	b := s.shelf.blocks[r.PathValue("block")]
	if b == nil {
		return nil, notFound(r)
	}
	if !s.config.Has(description.FeatureReserve) {
		return nil, &refusal{status: http.StatusMethodNotAllowed, message: "blocks cannot be changed"}
	}
	var patch struct {
		CompositionStatus struct{ Reserved *bool }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, malformed(err)
	}
	if patch.CompositionStatus.Reserved == nil {
		return nil, &refusal{status: http.StatusBadRequest, message: "only CompositionStatus.Reserved can be changed"}
	}
	kind := description.OperationRelease
	if *patch.CompositionStatus.Reserved {
		kind = description.OperationReserve
	}
	struck := s.script.struck(call{operation: kind, block: b.ID, host: b.host})
	if refused := struck.refusal(); refused != nil {
		return nil, refused
	}
	if refused := s.precondition(r, s.shelf.blockResource(b)); refused != nil {
		return nil, refused
	}
	b.reserved = kind == description.OperationReserve
	answer := s.shown(s.shelf.blockResource(b))
	answer.dropped = struck.has(description.FaultLostReply)
	return answer, nil
}

func (c *shelf) getBlockDevice(r *http.Request) resource {
	b, kind := c.blocks[r.PathValue("block")], r.PathValue("kind")
	if b == nil || r.PathValue("device") != "1" || !c.hasDevice(b, kind) {
		return nil
	}
	return c.deviceResource(b, kind)
}

// hasDevice tells whether a block has a device of a kind. A processor that does not tell its identity has a PCIe device
// that does.
func (c *shelf) hasDevice(b *block, kind string) bool {
	if kind == "PCIeDevices" {
		return b.Kind == description.KindPCIeDevice || !c.config.Has(description.FeatureProcessorIdentity)
	}
	return kind == "Processors" && b.Kind == description.KindProcessor
}

// deviceResource is what a block consists of.
func (c *shelf) deviceResource(b *block, kind string) resource {
	path := blocksPath + "/" + b.ID
	d := resource{
		"@odata.id": path + "/" + kind + "/1", "@odata.type": "#PCIeDevice.v1_16_0.PCIeDevice", "Id": "1", "Name": b.ID,
		"Manufacturer": b.Manufacturer, "Model": b.Model, "PartNumber": b.PartNumber,
		"SerialNumber": b.SerialNumber, "UUID": b.UUID, "Status": health(!b.broken),
	}
	if kind == "PCIeDevices" {
		return d
	}
	d["@odata.type"], d["ProcessorType"] = "#Processor.v1_20_0.Processor", "GPU"
	d["MemorySummary"] = resource{"TotalMemorySizeMiB": b.MemoryMiB}
	if !c.config.Has(description.FeatureProcessorIdentity) {
		delete(d, "UUID")
		delete(d, "SerialNumber")
		d["Links"] = resource{"PCIeDevice": link(path + "/PCIeDevices/1")}
	}
	return d
}

func (c *shelf) getZones(*http.Request) resource {
	return collection(zonesPath, "ZoneCollection", c.config.Zones, c.zoneResource)
}

func (c *shelf) getZone(r *http.Request) resource {
	if zone := r.PathValue("zone"); slices.Contains(c.config.Zones, zone) {
		return c.zoneResource(zone)
	}
	return nil
}

func (c *shelf) zoneResource(zone string) resource {
	blocks := c.blockIDs(zone)
	return resource{
		"@odata.id": zonesPath + "/" + zone, "@odata.type": "#Zone.v1_6_3.Zone", "Id": zone, "Name": zone,
		"ZoneType": "ZoneOfResourceBlocks", "Status": health(true),
		"Links": resource{"ResourceBlocks": links(blocksPath, blocks...), "ResourceBlocks@odata.count": len(blocks)},
	}
}
