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
	// Missing are the kinds of which the dump has not everything, as whoever
	// made it could not list them.
	Missing []Gap `json:"missing,omitempty"`
	Objects `json:",inline"`
	// End is the last field of a file that is sealed.
	End bool `json:"end,omitempty"`
}

// Objects are those of a dump.
type Objects struct {
	Namespaces             []*v1.Namespace                      `json:"namespaces,omitempty"`
	Nodes                  []*v1.Node                           `json:"nodes,omitempty"`
	DeviceClasses          []*resourceapi.DeviceClass           `json:"deviceClasses,omitempty"`
	ResourceSlices         []*resourceapi.ResourceSlice         `json:"resourceSlices,omitempty"`
	DeviceTaintRules       []*resourceapi.DeviceTaintRule       `json:"deviceTaintRules,omitempty"`
	ResourceQuotas         []*v1.ResourceQuota                  `json:"resourceQuotas,omitempty"`
	ResourceClaimTemplates []*resourceapi.ResourceClaimTemplate `json:"resourceClaimTemplates,omitempty"`
	ResourceClaims         []*resourceapi.ResourceClaim         `json:"resourceClaims,omitempty"`
	Pods                   []*v1.Pod                            `json:"pods,omitempty"`
}

// Metadata makes a dump an object like others.
type Metadata struct {
	// Name says what the dump is of.
	Name string `json:"name"`
	// Sealed announces the field end, without which the file is cut off.
	Sealed bool `json:"sealed,omitempty"`
}

// New returns an empty dump.
func New() *Dump {
	return &Dump{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Metadata: Metadata{Name: "cluster", Sealed: true},
		End:      true,
	}
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
	case *v1.ResourceQuota:
		d.ResourceQuotas = append(d.ResourceQuotas, quotaOf(o))
	case *resourceapi.ResourceClaimTemplate:
		d.ResourceClaimTemplates = append(d.ResourceClaimTemplates, templateOf(o))
	case *resourceapi.ResourceClaim:
		d.ResourceClaims = append(d.ResourceClaims, claimOf(o))
	default:
		return fmt.Errorf("a dump has no objects of type %T", object)
	}
	return nil
}

// Merge adds the objects of another dump as they are, and what it lacks.
func (d *Dump) Merge(other *Dump) {
	d.Missing = append(d.Missing, other.Missing...)
	d.Namespaces = append(d.Namespaces, other.Namespaces...)
	d.Nodes = append(d.Nodes, other.Nodes...)
	d.DeviceClasses = append(d.DeviceClasses, other.DeviceClasses...)
	d.ResourceSlices = append(d.ResourceSlices, other.ResourceSlices...)
	d.DeviceTaintRules = append(d.DeviceTaintRules, other.DeviceTaintRules...)
	d.ResourceQuotas = append(d.ResourceQuotas, other.ResourceQuotas...)
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
	sortByName(d.ResourceQuotas)
	sortByName(d.ResourceClaimTemplates)
	sortByName(d.ResourceClaims)
	sortByName(d.Pods)
}

func sortByName[T metav1.Object](objects []T) {
	slices.SortStableFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
