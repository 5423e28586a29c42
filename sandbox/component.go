// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// component is one part of the control plane that runs until it is cancelled.
type component struct {
	name     string
	cancel   context.CancelFunc
	stopping atomic.Bool
	done     chan struct{}
	// err is what run returned; it may be read once done is closed.
	err error
}

// runComponent runs a component in its own goroutine. cancel must make run
// return. failed is called when the component ends without having been stopped.
func runComponent(name string, cancel context.CancelFunc, failed func(error), run func() error) *component {
	c := &component{name: name, cancel: cancel, done: make(chan struct{})}
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

// stop ends the component and waits until it has returned. A nil component was
// never started.
func (c *component) stop() error {
	if c == nil {
		return nil
	}
	c.stopping.Store(true)
	c.cancel()
	<-c.done
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		return fmt.Errorf("stop %s: %w", c.name, c.err)
	}
	return nil
}

// failure is the reason why a component ended that nobody had stopped.
func (c *component) failure() error {
	if c.err == nil {
		return fmt.Errorf("%s ended by itself", c.name)
	}
	return fmt.Errorf("%s failed: %w", c.name, c.err)
}
