// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

// Identity of the format.
const (
	APIVersion = "kerf.dev/v1alpha1"
	Kind       = "DeviceAugmentation"
)

// Document is what a file says about the devices of one driver.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Driver is the name of the driver, exactly.
	Driver string `json:"driver"`
	Rules  []Rule `json:"rules"`
}

// NewDocument returns a document for the devices of a driver.
func NewDocument(driver string, rules ...Rule) Document {
	return Document{APIVersion: APIVersion, Kind: Kind, Driver: driver, Rules: rules}
}

// Rule adds something to each device that it selects.
type Rule struct {
	Select Selector `json:"select"`
	Add    Addition `json:"add"`
}

// Selector matches a device if everything that is set matches. At least one
// field is set.
type Selector struct {
	// Pool is the name of the device's pool or a pattern of it.
	Pool string `json:"pool,omitempty"`
	// Name is the name of the device or a pattern of it.
	Name string `json:"name,omitempty"`
	// Attributes are values that the device must have. They are single values; a
	// list attribute has each value that it includes.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
}

// Addition is what a device gets. It is not empty.
type Addition struct {
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	// Taints have no timeAdded: the API server sets it.
	Taints []resourceapi.DeviceTaint `json:"taints,omitempty"`
}

// Marshal writes a file with the documents, in YAML. What [Parse] would refuse is
// an error.
func Marshal(documents ...Document) ([]byte, error) {
	var data []byte
	for i, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if i > 0 {
			data = append(data, "---\n"...)
		}
		data = append(data, text...)
	}
	if _, err := Parse("file to write", data); err != nil {
		return nil, err
	}
	return data, nil
}
