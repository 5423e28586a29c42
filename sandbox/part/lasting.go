// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"sync"
)

var errLasting = errors.New("this part lives as long as the sandbox")

// Lasting is a part that runs from the start of the sandbox to its end.
type Lasting struct {
	// Name is what messages call the part.
	Name string
	// Setup prepares the run.
	Setup Setup
	// Ready, if not nil, waits until others can use the part.
	Ready func(context.Context) error
	// Failed is told if the part ends by itself.
	Failed func(error)

	mu  sync.Mutex
	run *Component
}

var _ Part = &Lasting{}

// Start starts the part and waits until it is ready.
func (l *Lasting) Start(ctx context.Context, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		return ErrRunning
	}
	run, err := Run(ctx, l.Name, l.Failed, l.Setup)
	if err != nil {
		return err
	}
	l.run = run
	if l.Ready == nil {
		return nil
	}
	return l.Ready(ctx)
}

// Stop ends the part.
func (l *Lasting) Stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.run
	l.run = nil
	return run.Stop()
}

// Kill fails.
func (*Lasting) Kill(string) error { return errLasting }

// Cut fails.
func (*Lasting) Cut() error { return errLasting }

// Reconnect fails.
func (*Lasting) Reconnect() error { return errLasting }
