// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/cluster"
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
	Missing         []Gap `json:"missing,omitempty"`
	cluster.Objects `json:",inline"`
	// End is the last field of a file that is sealed.
	End bool `json:"end,omitempty"`
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
	var one cluster.Objects
	if !one.Add(object) {
		return fmt.Errorf("a dump has no objects of type %T", object)
	}
	d.Objects.Merge(reduced(&one))
	return nil
}

// Merge adds the objects of another dump as they are, and what it lacks.
func (d *Dump) Merge(other *Dump) {
	d.Missing = append(d.Missing, other.Missing...)
	d.Objects.Merge(&other.Objects)
}
