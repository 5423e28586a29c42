// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

const ruleExtended = "extended-resource-invalid"

// checkExtended reports extended resources of a pod that an API server refuses.
func (p podSpec) checkExtended() {
	if pod := p.pod.Spec.Resources; pod != nil {
		p.checkPodLevel("spec.resources.limits", pod.Limits)
		p.checkPodLevel("spec.resources.requests", pod.Requests)
	}
	for path, c := range p.containers {
		e := extendedOf{p, path + ".resources", c}
		for name, limit := range sorted(c.Resources.Limits) {
			if claim.IsExtended(name) {
				e.checkAmount("limits", name, limit)
			}
		}
		for name, request := range sorted(c.Resources.Requests) {
			if claim.IsExtended(name) {
				e.checkRequest(name, request)
			}
		}
	}
}

// checkPodLevel reports extended resources of the pod as a whole.
func (p podSpec) checkPodLevel(path string, list v1.ResourceList) {
	for name, amount := range sorted(list) {
		if claim.IsExtended(name) {
			p.report(Error, ruleExtended, fmt.Sprintf("%s[%s]", path, name), "set it in the resources of the container that uses it",
				"the pod as a whole asks for %s of %s; it can ask for cpu, memory and huge pages only", inventory.QuantityText(amount), name)
		}
	}
}

// extendedOf are the extended resources of a container.
type extendedOf struct {
	podSpec
	path string // of the container's resources
	*v1.Container
}

// report adds a finding about a resource in limits or requests.
func (e extendedOf) report(list string, name v1.ResourceName, fix, problem string, args ...any) {
	e.podSpec.report(Error, ruleExtended, fmt.Sprintf("%s.%s[%s]", e.path, list, name), fix,
		"container %s %s", e.Name, fmt.Sprintf(problem, args...))
}

// checkAmount reports what is no number of devices, and whether it is one. The API
// takes fractions of the resources that are named after a class.
func (e extendedOf) checkAmount(list string, name v1.ResourceName, amount resource.Quantity) bool {
	switch {
	case amount.Sign() < 0:
		e.report(list, name, "ask for 1 or more, or leave the resource out", "asks for %s of %s, which is negative", inventory.QuantityText(amount), name)
	case amount.MilliValue()%1000 != 0 && !ofClass(name):
		e.report(list, name, "ask for a whole number; use a ResourceClaim for a part of a device",
			"asks for %s of %s, which is not a whole number", inventory.QuantityText(amount), name)
	default:
		return true
	}
	return false
}

// checkRequest reports a request that its limit does not equal. One that is named after
// a class may be below its limit, or have none.
func (e extendedOf) checkRequest(name v1.ResourceName, request resource.Quantity) {
	limit, limited := e.Resources.Limits[name]
	order := inventory.AmountOf(request).Cmp(inventory.AmountOf(limit))
	if limited && order == 0 || !e.checkAmount("requests", name, request) {
		return // what is wrong with an equal limit was reported there
	}
	switch {
	case !limited && !ofClass(name):
		e.report("requests", name, fmt.Sprintf("set the limit to %s; the request may then be left out", request.String()),
			"requests %s of %s without a limit", request.String(), name)
	case limited && (order > 0 || !ofClass(name)):
		e.report("requests", name, "make both the same, or leave the request out",
			"requests %s of %s, but its limit is %s", request.String(), name, limit.String())
	}
}

// ofClass reports whether a resource is named after a device class. The API server
// takes it for one of Kubernetes' own.
func ofClass(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}
