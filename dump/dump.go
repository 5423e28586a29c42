// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Identity of the format.
const (
	APIVersion = "kerf.dev/v1alpha1"
	Kind       = "Dump"
)

// Dump is a cluster at one moment. Its objects are read-only. Make one with [New].
type Dump struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata `json:"metadata"`

	Namespaces             []*v1.Namespace                      `json:"namespaces,omitempty"`
	Nodes                  []*v1.Node                           `json:"nodes,omitempty"`
	DeviceClasses          []*resourceapi.DeviceClass           `json:"deviceClasses,omitempty"`
	ResourceSlices         []*resourceapi.ResourceSlice         `json:"resourceSlices,omitempty"`
	DeviceTaintRules       []*resourceapi.DeviceTaintRule       `json:"deviceTaintRules,omitempty"`
	ResourceClaimTemplates []*resourceapi.ResourceClaimTemplate `json:"resourceClaimTemplates,omitempty"`
	ResourceClaims         []*resourceapi.ResourceClaim         `json:"resourceClaims,omitempty"`
	Pods                   []*v1.Pod                            `json:"pods,omitempty"`
}

// Metadata makes a dump an object like others.
type Metadata struct {
	// Name says what the dump is of.
	Name string `json:"name"`
}

// New returns an empty dump.
func New() *Dump {
	return &Dump{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Metadata: Metadata{Name: "cluster"}}
}

// Add adds an object, reduced to what is needed. Objects of kinds that a dump
// does not have are an error. The object is not changed.
func (d *Dump) Add(object any) error {
	switch o := object.(type) {
	case *v1.Namespace:
		d.Namespaces = append(d.Namespaces, namespaceOf(o))
	case *v1.Node:
		d.Nodes = append(d.Nodes, nodeOf(o))
	case *v1.Pod:
		d.Pods = append(d.Pods, podOf(o))
	case *resourceapi.DeviceClass:
		d.DeviceClasses = append(d.DeviceClasses, classOf(o))
	case *resourceapi.ResourceSlice:
		d.ResourceSlices = append(d.ResourceSlices, sliceOf(o))
	case *resourceapi.DeviceTaintRule:
		d.DeviceTaintRules = append(d.DeviceTaintRules, ruleOf(o))
	case *resourceapi.ResourceClaimTemplate:
		d.ResourceClaimTemplates = append(d.ResourceClaimTemplates, templateOf(o))
	case *resourceapi.ResourceClaim:
		d.ResourceClaims = append(d.ResourceClaims, claimOf(o))
	default:
		return fmt.Errorf("a dump has no objects of type %T", object)
	}
	return nil
}

// Merge adds the objects of another dump as they are.
func (d *Dump) Merge(other *Dump) {
	d.Namespaces = append(d.Namespaces, other.Namespaces...)
	d.Nodes = append(d.Nodes, other.Nodes...)
	d.DeviceClasses = append(d.DeviceClasses, other.DeviceClasses...)
	d.ResourceSlices = append(d.ResourceSlices, other.ResourceSlices...)
	d.DeviceTaintRules = append(d.DeviceTaintRules, other.DeviceTaintRules...)
	d.ResourceClaimTemplates = append(d.ResourceClaimTemplates, other.ResourceClaimTemplates...)
	d.ResourceClaims = append(d.ResourceClaims, other.ResourceClaims...)
	d.Pods = append(d.Pods, other.Pods...)
}

// Sort orders the objects of each kind by namespace and name.
func (d *Dump) Sort() {
	sortByName(d.Namespaces)
	sortByName(d.Nodes)
	sortByName(d.DeviceClasses)
	sortByName(d.ResourceSlices)
	sortByName(d.DeviceTaintRules)
	sortByName(d.ResourceClaimTemplates)
	sortByName(d.ResourceClaims)
	sortByName(d.Pods)
}

func sortByName[T metav1.Object](objects []T) {
	slices.SortStableFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// Marshal returns the dump as YAML, with its objects sorted.
func (d *Dump) Marshal() ([]byte, error) {
	sorted := New()
	sorted.Metadata = d.Metadata
	sorted.Merge(d)
	sorted.Sort()
	return yaml.Marshal(sorted)
}

// Unmarshal reads a dump from YAML or JSON. The error says what is not known or
// of the wrong type.
func Unmarshal(data []byte) (*Dump, error) {
	d := &Dump{}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		return nil, fmt.Errorf("not a dump: %w", err)
	}
	if d.Kind != Kind {
		return nil, fmt.Errorf("kind: is %q, want %s", d.Kind, Kind)
	}
	if d.APIVersion != APIVersion {
		return nil, fmt.Errorf("apiVersion: is %q, this version of kerf reads %s", d.APIVersion, APIVersion)
	}
	return d, nil
}
