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

func (s *Service) getCompositionService(*http.Request) (resource, *refusal) {
	return resource{
		"@odata.id": compositionPath, "@odata.type": "#CompositionService.v1_2_2.CompositionService",
		"Id": "CompositionService", "Name": "Composition Service", "ServiceEnabled": true, "Status": health(true),
		"ResourceBlocks": link(blocksPath), "ResourceZones": link(zonesPath),
	}, nil
}

func (s *Service) getBlocks(*http.Request) (resource, *refusal) {
	var members []resource
	if s.config.Has(description.FeatureHostBlocks) {
		for _, h := range s.config.Hosts {
			members = append(members, s.hostBlockResource(s.hosts[h.ID]))
		}
	}
	for _, b := range s.config.Blocks {
		members = append(members, s.blockResource(s.blocks[b.ID]))
	}
	return collection(blocksPath, "ResourceBlockCollection.ResourceBlockCollection", members), nil
}

func (s *Service) getBlock(r *http.Request) (resource, *refusal) {
	id := r.PathValue("block")
	if b := s.blocks[id]; b != nil {
		return s.blockResource(b), nil
	}
	if h := s.hosts[id]; h != nil && s.config.Has(description.FeatureHostBlocks) {
		return s.hostBlockResource(h), nil
	}
	return nil, notFound(r)
}

// blockAt finds the block of a path, which is not that of a host, or nil.
func (s *Service) blockAt(path string) *block {
	id, ok := strings.CutPrefix(path, blocksPath+"/")
	if !ok {
		return nil
	}
	return s.blocks[id]
}

// hostBlockResource is what stands for a host in the composition service.
func (s *Service) hostBlockResource(h *description.Host) resource {
	system := links(systemsPath + "/" + h.ID)
	return resource{
		"@odata.id": blocksPath + "/" + h.ID, "@odata.type": "#ResourceBlock.v1_4_2.ResourceBlock",
		"Id": h.ID, "Name": h.ID, "ResourceBlockType": []string{"ComputerSystem", "Expansion"}, "Status": health(true),
		"CompositionStatus": resource{"CompositionState": "ComposedAndAvailable", "SharingCapable": true},
		"ComputerSystems":   system, "ComputerSystems@odata.count": 1,
		"Links": resource{"ComputerSystems": system, "Zones": zoneLinks(h.Zones)},
	}
}

func zoneLinks(zones []string) []resource {
	var paths []string
	for _, z := range zones {
		paths = append(paths, zonesPath+"/"+z)
	}
	return links(paths...)
}

func (s *Service) blockResource(b *block) resource {
	path := blocksPath + "/" + b.ID
	status := resource{"CompositionState": "Unused", "MaxCompositions": 1, "NumberOfCompositions": 0, "SharingCapable": false}
	if s.config.Has(description.FeatureReserve) {
		status["Reserved"] = b.reserved
	}
	systems := []resource{}
	if b.host != "" {
		status["CompositionState"], status["NumberOfCompositions"] = "Composed", 1
		systems = links(systemsPath + "/" + b.host)
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
		"CompositionStatus": status, kind: links(path + "/" + kind + "/1"), kind + "@odata.count": 1,
		"Links": resource{"ComputerSystems": systems, "Zones": zoneLinks(b.Zones)},
	}
}

// patchBlock changes CompositionStatus.Reserved.
func (s *Service) patchBlock(r *http.Request, body []byte) (*reply, *refusal) {
	b := s.blocks[r.PathValue("block")]
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
	struck := s.struck(call{operation: kind, block: b.ID, host: b.host})
	if struck.has(description.FaultLostRequest) {
		return nil, &refusal{dropped: true}
	}
	if refused := struck.refusal(s.retryAfter()); refused != nil {
		return nil, refused
	}
	if refused := s.precondition(r, s.blockResource(b)); refused != nil {
		return nil, refused
	}
	b.reserved = kind == description.OperationReserve
	return s.modified(s.blockResource(b), struck.has(description.FaultLostReply)), nil
}

// modified is the reply to a change: the resource as it is now.
func (s *Service) modified(body resource, dropped bool) *reply {
	header := http.Header{}
	body = s.tagged(body)
	if tag, ok := body["@odata.etag"].(string); ok {
		header.Set("ETag", tag)
	}
	return &reply{header: header, body: body, dropped: dropped}
}

func (s *Service) getBlockDevice(r *http.Request) (resource, *refusal) {
	b, kind := s.blocks[r.PathValue("block")], r.PathValue("kind")
	if b == nil || r.PathValue("device") != "1" || !s.hasDevice(b, kind) {
		return nil, notFound(r)
	}
	return s.deviceResource(b, kind), nil
}

// hasDevice tells whether a block has a device of a kind. A processor that does not tell its identity has a PCIe device
// that does.
func (s *Service) hasDevice(b *block, kind string) bool {
	if kind == "PCIeDevices" {
		return b.Kind == description.KindPCIeDevice || !s.config.Has(description.FeatureProcessorIdentity)
	}
	return kind == "Processors" && b.Kind == description.KindProcessor
}

// deviceResource is what a block consists of.
func (s *Service) deviceResource(b *block, kind string) resource {
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
	if !s.config.Has(description.FeatureProcessorIdentity) {
		delete(d, "UUID")
		delete(d, "SerialNumber")
		d["Links"] = resource{"PCIeDevice": link(path + "/PCIeDevices/1")}
	}
	return d
}

func (s *Service) getZones(*http.Request) (resource, *refusal) {
	var members []resource
	for _, z := range s.config.Zones {
		members = append(members, s.zoneResource(z))
	}
	return collection(zonesPath, "ZoneCollection.ZoneCollection", members), nil
}

func (s *Service) getZone(r *http.Request) (resource, *refusal) {
	if zone := r.PathValue("zone"); slices.Contains(s.config.Zones, zone) {
		return s.zoneResource(zone), nil
	}
	return nil, notFound(r)
}

func (s *Service) zoneResource(zone string) resource {
	var blocks []string
	if s.config.Has(description.FeatureHostBlocks) {
		for _, h := range s.config.Hosts {
			if slices.Contains(s.hosts[h.ID].Zones, zone) {
				blocks = append(blocks, blocksPath+"/"+h.ID)
			}
		}
	}
	for _, b := range s.config.Blocks {
		if slices.Contains(b.Zones, zone) {
			blocks = append(blocks, blocksPath+"/"+b.ID)
		}
	}
	return resource{
		"@odata.id": zonesPath + "/" + zone, "@odata.type": "#Zone.v1_6_3.Zone", "Id": zone, "Name": zone,
		"ZoneType": "ZoneOfResourceBlocks", "Status": health(true),
		"Links": resource{"ResourceBlocks": links(blocks...), "ResourceBlocks@odata.count": len(blocks)},
	}
}
