// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
)

// compiler makes problems of claims.
type compiler struct {
	manager fwk.SharedDRAManager
	matcher alloc.Matcher
	options alloc.Options
}

// compile prepares claims for being solved on nodes.
func (c *compiler) compile(claims []*podClaim) (*alloc.Problem, error) {
	return c.compileWith(c.options, claims)
}

func (c *compiler) compileWith(options alloc.Options, claims []*podClaim) (*alloc.Problem, error) {
	classes := &classLookup{lister: c.manager.DeviceClasses()}
	for _, pc := range claims {
		options.Containers = append(options.Containers, pc.references)
	}
	problem, err := alloc.Compile(specsOf(claims), classes.get, c.matcher, options)
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
