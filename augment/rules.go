// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Rules are the files in force. They are immutable; the zero value adds nothing.
type Rules struct {
	files []*File // by name
}

// NewRules puts files together. Their order does not matter; of files with one
// name, the last counts.
func NewRules(files ...*File) Rules {
	byName := map[string]*File{}
	for _, f := range files {
		byName[f.name] = f
	}
	var r Rules
	for _, f := range byName {
		r.files = append(r.files, f)
	}
	slices.SortFunc(r.files, func(a, b *File) int { return strings.Compare(a.name, b.name) })
	return r
}

// Files are the files in force, by name.
func (r Rules) Files() []*File { return slices.Clone(r.files) }

// Equal tells whether the rules say the same about the devices of a driver. What
// the files are called, and what they say about other drivers, does not matter
// as long as the order is the same.
func (r Rules) Equal(other Rules, driver string) bool {
	return equality.Semantic.DeepEqual(r.about(driver), other.about(driver))
}

// about returns the rules for a driver, by file; files without any are left out.
func (r Rules) about(driver string) [][]Rule {
	var about [][]Rule
	for _, f := range r.files {
		var rules []Rule
		for _, d := range f.documents {
			if d.Driver == driver {
				rules = append(rules, d.Rules...)
			}
		}
		if len(rules) > 0 {
			about = append(about, rules)
		}
	}
	return about
}

// Pool is a pool with its devices, in the driver's order.
type Pool struct {
	Name    string
	Devices []resourceapi.Device
}

// Result is what becomes of a driver's devices.
type Result struct {
	// Pools are those that went in, in the same order, with the same devices in
	// the same order. They are read-only: they share what did not change.
	Pools []Pool
	// Added is what was added, by pool and device.
	Added Additions
	// Refused are the reasons for which files were left out, by file and line. A
	// file that is named here added nothing.
	Refused []*Refusal
}

// Apply adds to the devices of a driver what the rules ask for. All pools of the
// driver are given in one call: a file is used for all of them or for none.
func (r Rules) Apply(driver string, pools []Pool) Result {
	a := newApplication(driver, pools)
	for _, f := range r.files {
		a.file(f)
	}
	return a.result()
}
