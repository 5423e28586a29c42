// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/augment"
)

// Config is what a driver tells its Publisher.
type Config struct {
	// Directory is the path of the directory with the files.
	Directory string
	// WaitForDirectory has NewPublisher wait until the directory exists. Otherwise
	// it is an error that it does not.
	WaitForDirectory bool
	// Driver is the driver's name.
	Driver string
	// Publish publishes resources, such as the method PublishResources of
	// kubeletplugin.Helper. It is called by one goroutine at a time.
	Publish func(context.Context, resourceslice.DriverResources) error
	// Report is told what is wrong with the files, or with a publication after a
	// change of them: a [BrokenFile], an [augment.Refusal] or another error. It is
	// called by one goroutine at a time and must not call the Publisher.
	Report func(error)
}

// Publisher publishes a driver's resources with what the files add to them, again
// whenever the files change.
type Publisher struct {
	config    Config
	directory *Directory
	ctx       context.Context // of publications after a change of the files

	mu       sync.Mutex
	own      *resourceslice.DriverResources // what the driver published last
	applied  augment.Rules
	added    augment.Additions
	refusals map[string]bool // reported
	refused  map[string]bool // files, by name
}

// NewPublisher reads the directory and watches it until the context ends or Close
// is called. It publishes nothing by itself before the first call of Publish.
func NewPublisher(ctx context.Context, config Config) (*Publisher, error) {
	if config.Publish == nil {
		return nil, errors.New("config: publish is nil: give the function that publishes the driver's resources")
	}
	p := &Publisher{config: config, ctx: ctx}
	p.mu.Lock() // no change is handled before the directory is set
	defer p.mu.Unlock()
	var err error
	p.directory, err = Open(ctx, config.Directory, Options{
		Driver: config.Driver, WaitForDirectory: config.WaitForDirectory,
		Changed: p.changed, Report: config.Report,
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Publish publishes the driver's resources, complete, with what the files say now.
// The resources are copied. The error is that of the configured function; the
// resources count as published nevertheless.
func (p *Publisher) Publish(ctx context.Context, own resourceslice.DriverResources) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = own.DeepCopy()
	return p.publish(ctx, p.directory.Load())
}

// changed publishes again, unless Publish has seen the change before.
func (p *Publisher) changed(augment.Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := p.directory.Rules() // which may be newer by now
	if p.own == nil || rules.Equal(p.applied, p.config.Driver) {
		return
	}
	if err := p.publish(p.ctx, rules); err != nil {
		p.report(fmt.Errorf("publish after a change in augmentation directory %s: %w", p.config.Directory, err))
	}
}

// refresh reads the directory now, and publishes what was published before if the
// files say something else.
func (p *Publisher) refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := p.directory.Load()
	if p.own == nil || rules.Equal(p.applied, p.config.Driver) {
		return nil
	}
	return p.publish(ctx, rules)
}

// inForce tells whether the next publication will use a file.
func (p *Publisher) inForce(file string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.refused[file] && slices.ContainsFunc(p.directory.Rules().Files(), func(f *augment.File) bool { return f.Name() == file })
}

// publish must be called with the lock held.
func (p *Publisher) publish(ctx context.Context, rules augment.Rules) error {
	augmented, added, refused := Apply(rules, p.config.Driver, *p.own)
	reported := p.refusals
	p.refusals, p.refused = map[string]bool{}, map[string]bool{}
	for _, r := range refused {
		p.refusals[r.Error()], p.refused[r.File] = true, true
		if !reported[r.Error()] {
			p.report(r)
		}
	}
	p.applied, p.added = rules, added
	return p.config.Publish(ctx, augmented)
}

func (p *Publisher) report(err error) { p.directory.fault(err) }

// Strip takes from a slice that was read back what was added to its devices by the
// last publication. The slice is not changed.
func (p *Publisher) Strip(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	p.mu.Lock()
	added := p.added
	p.mu.Unlock()
	stripped := slice.DeepCopy()
	for i, device := range stripped.Spec.Devices {
		stripped.Spec.Devices[i] = added.Strip(slice.Spec.Pool.Name, device)
	}
	return stripped
}

// Close ends the watch and waits for its end. What is published stays published.
func (p *Publisher) Close() { p.directory.Close() }
