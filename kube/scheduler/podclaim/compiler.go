// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
)

// Compiler makes problems of claims.
type Compiler struct {
	Manager fwk.SharedDRAManager
	Matcher alloc.Matcher
	Options alloc.Options
}

// Compile prepares claims for being solved on nodes.
func (c *Compiler) Compile(claims []*Claim) (*alloc.Problem, error) {
	return c.CompileWith(c.Options, claims)
}

// CompileWith is the same with other options.
func (c *Compiler) CompileWith(options alloc.Options, claims []*Claim) (*alloc.Problem, error) {
	classes := &classLookup{lister: c.Manager.DeviceClasses()}
	for _, pc := range claims {
		options.Containers = append(options.Containers, pc.References)
	}
	problem, err := alloc.Compile(SpecsOf(claims), classes.get, c.Matcher, options)
	if classes.err != nil {
		return nil, classes.err
	}
	return problem, err
}

// classLookup finds device classes and keeps the first error that says more
// than that there is none.
type classLookup struct {
	lister fwk.DeviceClassLister
	err    error
}

func (l *classLookup) get(name string) *resourceapi.DeviceClass {
	class, err := l.lister.Get(name)
	if err != nil {
		if !apierrors.IsNotFound(err) && l.err == nil {
			l.err = fmt.Errorf("device class %s: %w", name, err)
		}
		return nil
	}
	return class
}
