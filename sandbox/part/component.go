// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Component is one part of the control plane that runs until it is cancelled.
type Component struct {
	// Name is what messages call it.
	Name     string
	cancel   context.CancelFunc
	stopping atomic.Bool
	done     chan struct{}
	// err is what run returned; it may be read once done is closed.
	err error
}

// Run runs a component in its own goroutine. cancel must make run
// return. failed is called when the component ends without having been stopped.
func Run(name string, cancel context.CancelFunc, failed func(error), run func() error) *Component {
	c := &Component{Name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		c.err = run()
		if !c.stopping.Load() {
			failed(c.failure())
		}
	}()
	return c
}

// Stop ends the component and waits until it has returned. A nil component was
// never started.
func (c *Component) Stop() error {
	if c == nil {
		return nil
	}
	c.Doom()
	c.cancel()
	<-c.done
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		return fmt.Errorf("stop %s: %w", c.Name, c.err)
	}
	return nil
}

// Doom has the end of the component, which is near, be no failure.
func (c *Component) Doom() { c.stopping.Store(true) }

// failure is the reason why a component ended that nobody had stopped.
func (c *Component) failure() error {
	if c.err == nil {
		return fmt.Errorf("%s ended by itself", c.Name)
	}
	return fmt.Errorf("%s failed: %w", c.Name, c.err)
}
