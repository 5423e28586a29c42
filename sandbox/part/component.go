// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Setup prepares a run of something. The run ends when the context does; that is then
// no failure of it.
type Setup func(ctx context.Context) (run func() error, err error)

// Component is one run of something that goes on until it is stopped.
type Component struct {
	// Name is what messages call it.
	Name     string
	cancel   context.CancelFunc
	stopping atomic.Bool
	done     chan struct{}
	// err is what run returned; it may be read once done is closed.
	err error
}

// Run starts a component, which messages call by its name. Its life is not that of the
// context. failed is called when it ends without having been stopped.
func Run(ctx context.Context, name string, failed func(error), setup Setup) (*Component, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run, err := setup(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &Component{Name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		c.err = run()
		if !c.stopping.Load() {
			failed(c.failure())
		}
	}()
	return c, nil
}

// Stop ends the component and waits until it has returned. A nil component was
// never started.
func (c *Component) Stop() error {
	if c == nil {
		return nil
	}
	c.doom()
	c.cancel()
	<-c.done
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		return fmt.Errorf("stop %s: %w", c.Name, c.err)
	}
	return nil
}

// doom has the end of the component, which is near, be no failure.
func (c *Component) doom() { c.stopping.Store(true) }

// failure is the reason why a component ended that nobody had stopped.
func (c *Component) failure() error {
	if c.err == nil {
		return fmt.Errorf("%s ended by itself", c.Name)
	}
	return fmt.Errorf("%s failed: %w", c.Name, c.err)
}
