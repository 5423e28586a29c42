// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// checkExtendedNames reports classes for resources that none can serve.
func (c *checker) checkExtendedNames() {
	for _, class := range c.cluster.DeviceClasses {
		if name := class.Spec.ExtendedResourceName; name != nil {
			if problem, fix := extendedNameProblem(*name); problem != "" {
				c.class(Error, "class-invalid", class, "spec.extendedResourceName", problem, fix)
			}
		}
	}
}

// longestDomain is the limit of a DNS subdomain, less the prefix that quotas put before
// the name of the resource.
const longestDomain = validation.DNS1123SubdomainMaxLength - len(v1.DefaultResourceRequestsPrefix)

const ownDomain = "name a resource of a domain of your own, such as example.com/gpu"

// extendedNameProblem says why the API does not take a name for that of an extended
// resource, and what would do; empty where it takes it.
func extendedNameProblem(name string) (problem, fix string) {
	switch {
	case name == "":
		return "the name of the resource is empty", "name the resource, or remove the field"
	case strings.HasPrefix(name, resourceapi.ResourceDeviceClassPrefix):
		return fmt.Sprintf("%q is one of the names that every class has without naming it", name),
			"remove the field; pods can ask for " + resourceapi.ResourceDeviceClassPrefix + "CLASS as it is"
	case !strings.Contains(name, "/"):
		return fmt.Sprintf("%q has no domain, so it is a resource of Kubernetes itself, which no class can serve", name), ownDomain
	case strings.Contains(name, v1.ResourceDefaultNamespacePrefix):
		return fmt.Sprintf("%q is a resource of Kubernetes itself, which no class can serve", name), ownDomain
	case strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix):
		return fmt.Sprintf("%q begins with %s, which quotas put before names of resources", name, v1.DefaultResourceRequestsPrefix), "leave the prefix out"
	case len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) > 0:
		return fmt.Sprintf("%q is not valid as the name of a resource", name),
			fmt.Sprintf("name it as DOMAIN/NAME: a domain of lower-case letters, digits, - and ., %d characters at most, then letters, digits, -, _ and ., %d at most; each begins and ends with a letter or digit",
				longestDomain, validation.DNS1123LabelMaxLength)
	}
	return "", ""
}

// checkPlugins reports nodes where a device plugin offers what a class would serve
// with devices of the same node: these are likely the same cards, and each side takes
// them for its own.
func (c *checker) checkPlugins() {
	for _, node := range c.cluster.Nodes {
		var names []v1.ResourceName
		for name, amount := range node.Status.Allocatable {
			if amount.Sign() > 0 && claim.IsExtended(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			class := claim.ClassServing(name, slices.Values(c.cluster.DeviceClasses))
			if class == nil {
				continue
			}
			if n := c.localDevices(class, node.Name); n > 0 {
				amount := node.Status.Allocatable[name]
				c.about("Node", node).report(Warning, "extended-resource-plugin", fmt.Sprintf("status.allocatable[%s]", name),
					"stop the device plugin on the node, or the driver",
					"a device plugin offers %s, and a driver publishes %d devices of class %s, which serves the same resource: if they are the same, each can be given out twice", inventory.QuantityText(amount), n, class.Name)
			}
		}
	}
}

// localDevices counts the devices of a class that are part of a node.
func (c *checker) localDevices(class *resourceapi.DeviceClass, node string) int {
	n := 0
	for d := range c.devices {
		if d.Slice.Spec.NodeName == nil || *d.Slice.Spec.NodeName != node || unreadable(d) {
			continue
		}
		if at, _ := c.firstMismatch(class.Spec.Selectors, d); at < 0 {
			n++
		}
	}
	return n
}
