// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kerf.dev/kerf/fabric/redfish/description"
)

func (s *Service) getVersions(*http.Request) resource { return resource{"v1": rootPath + "/"} }

func (s *Service) getRoot(*http.Request) resource {
	root := resource{
		"@odata.id": rootPath + "/", "@odata.type": "#ServiceRoot.v1_17_0.ServiceRoot",
		"Id": "RootService", "Name": s.config.Name, "RedfishVersion": "1.20.0", "UUID": description.MadeUUID("service", s.config.Name),
		"Systems": link(systemsPath), "CompositionService": link(compositionPath),
		"SessionService": link(rootPath + "/SessionService"), "Tasks": link(rootPath + "/TaskService"),
		"Links": resource{"Sessions": link(sessionsPath)},
	}
	expand := resource{"ExpandAll": false, "Levels": false, "Links": false, "NoLinks": false}
	if s.config.Has(description.FeatureExpand) {
		expand = resource{"ExpandAll": true, "Levels": true, "Links": true, "NoLinks": true, "MaxLevels": maxLevels}
	}
	root["ProtocolFeaturesSupported"] = resource{"ExpandQuery": expand, "TopSkipQuery": true}
	return root
}

func (c *shelf) getSystems(*http.Request) resource {
	return collection(systemsPath, "ComputerSystemCollection", c.config.Hosts, c.systemResource)
}

func (c *shelf) getSystem(r *http.Request) resource {
	if h := c.hosts[r.PathValue("system")]; h != nil {
		return c.systemResource(*h)
	}
	return nil
}

func (c *shelf) systemResource(h description.Host) resource {
	path := systemsPath + "/" + h.ID
	var blocks []string
	if c.config.Has(description.FeatureHostBlocks) {
		blocks = append(blocks, h.ID)
	}
	for _, b := range c.composed(h.ID) {
		blocks = append(blocks, b.ID)
	}
	system := resource{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem",
		"Id": h.ID, "Name": h.ID, "HostName": h.HostName, "UUID": h.UUID, "SerialNumber": h.SerialNumber,
		"SystemType": "Physical", "PowerState": "On", "Status": health(true),
		"Links": resource{"ResourceBlocks": links(blocksPath, blocks...), "ResourceBlocks@odata.count": len(blocks)},
	}
	if c.config.Has(description.FeatureActions) {
		system["Actions"] = resource{
			"#ComputerSystem.AddResourceBlock":    c.action(path, addAction),
			"#ComputerSystem.RemoveResourceBlock": c.action(path, removeAction),
		}
	}
	return system
}

func health(good bool) resource {
	if good {
		return resource{"State": "Enabled", "Health": "OK"}
	}
	return resource{"State": "UnavailableOffline", "Health": "Critical"}
}

func (c *shelf) action(system, action string) resource {
	offered := resource{"target": system + action}
	if c.config.Has(description.FeatureActionInfo) {
		offered["@Redfish.ActionInfo"] = system + "/" + action[strings.LastIndex(action, ".")+1:] + "ActionInfo"
	}
	return offered
}

func (c *shelf) getActionInfo(r *http.Request) resource {
	name := r.PathValue("action")
	known := name == "AddResourceBlockActionInfo" || name == "RemoveResourceBlockActionInfo"
	if c.hosts[r.PathValue("system")] == nil || !known || !c.config.Has(description.FeatureActionInfo) || !c.config.Has(description.FeatureActions) {
		return nil
	}
	parameters := []resource{{"Name": "ResourceBlock", "Required": true, "DataType": "Object"}}
	if c.config.Has(description.FeatureETags) {
		parameters = append(parameters,
			resource{"Name": "ResourceBlockETag", "Required": false, "DataType": "String"},
			resource{"Name": "ComputerSystemETag", "Required": false, "DataType": "String"})
	}
	return resource{
		"@odata.id": r.URL.Path, "@odata.type": "#ActionInfo.v1_4_0.ActionInfo",
		"Id": name, "Name": name, "Parameters": parameters,
	}
}

// reference is a link that a client sends.
type reference struct {
	ID string `json:"@odata.id"`
}

// postAction adds a block to a system or removes it.
func (s *Service) postAction(kind description.Operation) endpoint {
	return func(r *http.Request, body []byte) (*reply, *refusal) {
		h := s.shelf.hosts[r.PathValue("system")]
		if h == nil || !s.config.Has(description.FeatureActions) {
			return nil, notFound(r)
		}
		var parameters struct {
			ResourceBlock                         reference
			ResourceBlockETag, ComputerSystemETag string
		}
		if err := json.Unmarshal(body, &parameters); err != nil {
			return nil, malformed(err)
		}
		b := s.shelf.blockAt(parameters.ResourceBlock.ID)
		if b == nil {
			return nil, &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("ResourceBlock is %q, which is no device on the shelf", parameters.ResourceBlock.ID)}
		}
		system := s.shelf.systemResource(*h)
		if refused := s.precondition(r, system); refused != nil {
			return nil, refused
		}
		if s.outdated(parameters.ResourceBlockETag, s.shelf.blockResource(b)) || s.outdated(parameters.ComputerSystemETag, system) {
			return nil, &refusal{status: http.StatusPreconditionRequired, message: "an ETag among the parameters is not the current one"}
		}
		return s.startOperation(kind, h, []*block{b})
	}
}

func (s *Service) outdated(tag string, current resource) bool {
	return s.config.Has(description.FeatureETags) && tag != "" && tag != etag(current)
}

// startOperation begins an operation and answers at once where there are tasks, else when it has ended.
func (s *Service) startOperation(kind description.Operation, h *description.Host, blocks []*block) (*reply, *refusal) {
	o, refused := s.tasks.begin(kind, h, blocks)
	if refused != nil {
		return nil, refused
	}
	if o.id == "" {
		return &reply{work: o}, nil
	}
	return o.accepted(o.faults.has(description.FaultLostReply)), nil
}

// ended is the reply to who has waited for an operation.
func (a *reply) ended() (*reply, *refusal) {
	switch {
	case a.work.faults.has(description.FaultLostReply):
		return nil, &refusal{dropped: true}
	case a.work.failure != nil:
		return nil, a.work.failure
	}
	return &reply{status: http.StatusNoContent}, nil
}

// patchSystem attaches or detaches what the list of blocks has more or less than the system.
func (s *Service) patchSystem(r *http.Request, body []byte) (*reply, *refusal) {
	h := s.shelf.hosts[r.PathValue("system")]
	if h == nil {
		return nil, notFound(r)
	}
	if refused := s.precondition(r, s.shelf.systemResource(*h)); refused != nil {
		return nil, refused
	}
	var patch struct {
		Links struct{ ResourceBlocks *[]reference }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, malformed(err)
	}
	if patch.Links.ResourceBlocks == nil {
		return nil, &refusal{status: http.StatusBadRequest, message: "only Links.ResourceBlocks can be changed"}
	}
	own := !s.config.Has(description.FeatureHostBlocks)
	var wanted, added, removed []*block
	for _, l := range *patch.Links.ResourceBlocks {
		if l.ID == blocksPath+"/"+h.ID {
			own = true
			continue
		}
		b := s.shelf.blockAt(l.ID)
		if b == nil {
			return nil, &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("Links.ResourceBlocks has %q, which is no device on the shelf", l.ID)}
		}
		if wanted = append(wanted, b); b.host != h.ID {
			added = append(added, b)
		}
	}
	for _, b := range s.shelf.composed(h.ID) {
		if !slices.Contains(wanted, b) {
			removed = append(removed, b)
		}
	}
	switch {
	case !own:
		return nil, &refusal{status: http.StatusConflict, message: "the system's own block cannot be removed from it"}
	case len(added) > 0 && len(removed) > 0:
		return nil, &refusal{status: http.StatusBadRequest, message: "add blocks or remove them, not both at once"}
	case len(added) > 0:
		return s.startOperation(description.OperationAttach, h, added)
	case len(removed) > 0:
		return s.startOperation(description.OperationDetach, h, removed)
	}
	return &reply{status: http.StatusNoContent}, nil
}
