// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// parseClaim reads the body of a claim: a line for each request, constraint and
// configuration, and the alternatives of a prioritized list indented below it.
func parseClaim(body []line) (resourceapi.ResourceClaimSpec, error) {
	var spec resourceapi.ResourceClaimSpec
	for len(body) > 0 {
		n := 1
		for n < len(body) && body[n].indent > body[0].indent {
			n++
		}
		if err := addToClaim(&spec.Devices, body[0], body[1:n]); err != nil {
			return spec, err
		}
		body = body[n:]
	}
	if len(spec.Devices.Requests) == 0 {
		return spec, fmt.Errorf("want a request: NAME: COUNT of CLASS")
	}
	return spec, nil
}

func addToClaim(claim *resourceapi.DeviceClaim, head line, alternatives []line) error {
	var err error
	switch w := head.words; {
	case w[0].is("match"), w[0].is("distinct"):
		err = addConstraint(claim, w)
	case w[0].is("config"):
		err = addClaimConfig(claim, w[1:])
	case len(w) == 3 && w[1].is("first") && w[2].is("of"):
		return addPrioritizedList(claim, head, alternatives)
	default:
		err = addExactly(claim, w)
	}
	if err == nil && len(alternatives) > 0 {
		head, err = alternatives[0], fmt.Errorf("only below \"NAME: first of\" can there be alternatives")
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", head.number, err)
	}
	return nil
}

func addExactly(claim *resourceapi.DeviceClaim, words []word) error {
	r, err := parseRequest(words)
	if err != nil {
		return err
	}
	exactly := &resourceapi.ExactDeviceRequest{
		DeviceClassName: r.DeviceClassName, Selectors: r.Selectors, AllocationMode: r.AllocationMode, Count: r.Count,
		Tolerations: r.Tolerations, Capacity: r.Capacity, DerivedAttributes: r.DerivedAttributes,
	}
	if r.admin {
		exactly.AdminAccess = &r.admin
	}
	claim.Requests = append(claim.Requests, resourceapi.DeviceRequest{Name: r.Name, Exactly: exactly})
	return nil
}

func addPrioritizedList(claim *resourceapi.DeviceClaim, head line, alternatives []line) error {
	name, err := requestName(head.words[0])
	if err != nil {
		return fmt.Errorf("line %d: %w", head.number, err)
	}
	list := resourceapi.DeviceRequest{Name: name}
	for _, l := range alternatives {
		r, err := parseRequest(l.words)
		if err == nil && r.admin {
			err = fmt.Errorf("%s: an alternative cannot have admin access", r.Name)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.number, err)
		}
		list.FirstAvailable = append(list.FirstAvailable, r.DeviceSubRequest)
	}
	claim.Requests = append(claim.Requests, list)
	return nil
}

// request is a request or an alternative; what both have in common is all that
// an alternative can say.
type request struct {
	resourceapi.DeviceSubRequest
	admin bool
}

// parseRequest reads "NAME: COUNT|all of CLASS [CLAUSE]...".
func parseRequest(words []word) (request, error) {
	var r request
	lead, clauses := cutClauses(words, "where", "capacity", "tolerates", "derives", "admin")
	if len(lead) != 4 || !lead[2].is("of") {
		return r, fmt.Errorf("%s: want: NAME: COUNT|all of CLASS [where CEL] [capacity NAME=AMOUNT...] [tolerates KEY[=VALUE][:EFFECT]] [derives NAME CEL] [admin]", lead[0].text)
	}
	var err error
	if r.Name, err = requestName(lead[0]); err != nil {
		return r, err
	}
	r.DeviceClassName = lead[3].text
	r.AllocationMode = resourceapi.DeviceAllocationModeAll
	if !lead[1].is("all") {
		r.AllocationMode = resourceapi.DeviceAllocationModeExactCount
		if r.Count, err = strconv.ParseInt(lead[1].text, 10, 64); err != nil {
			return r, fmt.Errorf("%s: %q is neither a count nor all", r.Name, lead[1].text)
		}
	}
	for _, c := range clauses {
		if err := r.add(c); err != nil {
			return r, fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return r, nil
}

func requestName(w word) (string, error) {
	name, found := strings.CutSuffix(w.text, ":")
	if !found {
		return "", fmt.Errorf("%s: want NAME: before a request, or match, distinct or config", w.text)
	}
	return name, nil
}

func (r *request) add(c clause) (err error) {
	var text string
	switch c.keyword {
	case "where":
		text, err = c.one()
		r.Selectors = append(r.Selectors, celSelector(text))
	case "capacity":
		r.Capacity, err = requiredCapacity(c.words)
	case "tolerates":
		text, err = c.one()
		r.Tolerations = append(r.Tolerations, parseToleration(text))
	case "derives":
		if len(c.words) != 2 {
			return fmt.Errorf("derives: want NAME CEL")
		}
		r.DerivedAttributes = append(r.DerivedAttributes, resourceapi.DeviceDerivedAttribute{
			Name: resourceapi.FullyQualifiedName(c.words[0].text), Expression: c.words[1].text,
		})
	case "admin":
		r.admin = true
	}
	return err
}

func celSelector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// parseToleration reads KEY[=VALUE][:EFFECT]; a * for KEY tolerates all.
func parseToleration(text string) resourceapi.DeviceToleration {
	name, effect, _ := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(name, "=")
	t := resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffect(effect)}
	if hasValue {
		t.Operator, t.Value = resourceapi.DeviceTolerationOpEqual, value
	}
	if key == "*" {
		t.Key = ""
	}
	return t
}

// addConstraint reads "match|distinct ATTRIBUTE [of REQUEST...]".
func addConstraint(claim *resourceapi.DeviceClaim, words []word) error {
	lead, clauses := cutClauses(words[1:], "of")
	if len(lead) != 1 {
		return fmt.Errorf("%s: want one attribute, have %d words", words[0].text, len(lead))
	}
	attribute := resourceapi.FullyQualifiedName(lead[0].text)
	constraint := resourceapi.DeviceConstraint{}
	if words[0].is("match") {
		constraint.MatchAttribute = &attribute
	} else {
		constraint.DistinctAttribute = &attribute
	}
	for _, c := range clauses {
		requests, err := c.names()
		if err != nil {
			return err
		}
		constraint.Requests = append(constraint.Requests, requests...)
	}
	claim.Constraints = append(claim.Constraints, constraint)
	return nil
}

// addClaimConfig reads "config DRIVER KEY=VALUE... [of REQUEST...]".
func addClaimConfig(claim *resourceapi.DeviceClaim, words []word) error {
	lead, clauses := cutClauses(words, "of")
	config, err := parseConfig(lead)
	if err != nil {
		return err
	}
	entry := resourceapi.DeviceClaimConfiguration{DeviceConfiguration: config}
	for _, c := range clauses {
		if entry.Requests, err = c.names(); err != nil {
			return err
		}
	}
	claim.Config = append(claim.Config, entry)
	return nil
}

// parseConfig reads "DRIVER KEY=VALUE..."; the parameters are a JSON object.
func parseConfig(words []word) (resourceapi.DeviceConfiguration, error) {
	if len(words) < 2 {
		return resourceapi.DeviceConfiguration{}, fmt.Errorf("config: want: DRIVER KEY=VALUE [KEY=VALUE]")
	}
	all, err := settings(words[1:])
	if err != nil {
		return resourceapi.DeviceConfiguration{}, err
	}
	parameters := make(map[string]string, len(all))
	for _, s := range all {
		parameters[s.key] = s.value
	}
	raw, err := json.Marshal(parameters)
	if err != nil {
		return resourceapi.DeviceConfiguration{}, err
	}
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: words[0].text, Parameters: runtime.RawExtension{Raw: raw},
	}}, nil
}
