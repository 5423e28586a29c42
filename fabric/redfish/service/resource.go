// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"kerf.dev/kerf/fabric/redfish/description"
)

// resource is a Redfish resource as it is sent.
type resource map[string]any

// link refers to a resource.
func link(path string) resource { return resource{"@odata.id": path} }

// links refer to what has these IDs below a path.
func links(path string, ids ...string) []resource {
	all := []resource{}
	for _, id := range ids {
		all = append(all, link(path+"/"+id))
	}
	return all
}

// collection has whole members. What the client gets of them is the matter of query.
func collection[T any](path, kind string, items []T, show func(T) resource) resource {
	var members []resource
	for _, item := range items {
		members = append(members, show(item))
	}
	kind += "." + kind
	return resource{"@odata.id": path, "@odata.type": "#" + kind, "Name": kind, "Members": members}
}

// etag depends on the content of a resource alone.
func etag(r resource) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Resources are made of strings, numbers, lists and maps.
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text) // A hash does not fail.
	return fmt.Sprintf("%q", fmt.Sprintf("%016x", sum.Sum64()))
}

// tagged returns the resource with its ETag, if the service has any.
func (s *Service) tagged(r resource) resource {
	if s.config.Has(description.FeatureETags) {
		r["@odata.etag"] = etag(r)
	}
	return r
}

const maxLevels = 2

var expandQuery = regexp.MustCompile(`^([.*~])(?:\(\$levels=([0-9]+)\))?$`)

// query shapes a resource as $expand, $skip and $top demand.
func (s *Service) query(r *http.Request, body resource) (resource, *refusal) {
	query := r.URL.Query()
	levels := 0
	if expand := query.Get("$expand"); expand != "" {
		if !s.config.Has(description.FeatureExpand) {
			return nil, &refusal{status: http.StatusNotImplemented, message: "$expand is not supported"}
		}
		match := expandQuery.FindStringSubmatch(expand)
		if match == nil {
			return nil, &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("$expand=%s is malformed", expand)}
		}
		levels = 1
		if match[2] != "" {
			levels, _ = strconv.Atoi(match[2]) // Digits; what overflows is beyond the limit.
		}
		if levels < 1 || levels > maxLevels {
			return nil, &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("$levels is %s, want 1 to %d", match[2], maxLevels)}
		}
		if match[1] == "~" {
			levels = 0 // Nothing in the Links of a collection.
		}
	}
	members, isCollection := body["Members"].([]resource)
	if !isCollection {
		return s.expanded(body, levels), nil
	}
	return s.page(r, query, body, members, levels)
}

// page cuts the members of a collection and expands them or makes links of them.
func (s *Service) page(r *http.Request, query url.Values, body resource, members []resource, levels int) (resource, *refusal) {
	skip, err := number(query, "$skip", 0)
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, message: err.Error()}
	}
	top, err := number(query, "$top", len(members))
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, message: err.Error()}
	}
	from := min(skip, len(members))
	wanted := min(top, len(members)-from)
	size := wanted
	if s.config.PageSize > 0 {
		size = min(size, s.config.PageSize)
	}
	shown := []resource{}
	for _, m := range members[from : from+size] {
		if levels == 0 {
			id, _ := m["@odata.id"].(string)
			shown = append(shown, link(id))
		} else {
			shown = append(shown, s.expanded(s.tagged(m), levels-1))
		}
	}
	body["Members"], body["Members@odata.count"] = shown, len(members)
	if size < wanted {
		next := url.Values{"$skip": {strconv.Itoa(from + size)}}
		if query.Has("$top") {
			next.Set("$top", strconv.Itoa(top-size))
		}
		if query.Has("$expand") {
			next.Set("$expand", query.Get("$expand"))
		}
		body["Members@odata.nextLink"] = r.URL.Path + "?" + next.Encode()
	}
	return body, nil
}

func number(query url.Values, name string, otherwise int) (int, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is %q, want a number", name, query.Get(name))
	}
	return n, nil
}

// expanded puts the devices of a block in the place of the links to them.
func (s *Service) expanded(r resource, levels int) resource {
	if levels == 0 {
		return r
	}
	id, _ := r["Id"].(string)
	for _, kind := range []string{"Processors", "PCIeDevices"} {
		if _, ok := r[kind]; ok && s.shelf.blocks[id] != nil {
			r[kind] = []resource{s.tagged(s.shelf.deviceResource(s.shelf.blocks[id], kind))}
		}
	}
	return r
}
