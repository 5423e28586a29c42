// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"sync"
)

// Linked is a part that reaches the API server through a link of its own, so that it can
// be killed and cut off in the middle of whatever it does.
type Linked struct {
	// Name is what messages call the part.
	Name string
	// Address is where the API server is, as host:port.
	Address string
	// Setup prepares a run that finds the API server at another address.
	Setup func(ctx context.Context, address string) (run func() error, err error)
	// Failed is told if the part ends by itself.
	Failed func(error)
	// Gone is told that the part was killed or cut off: nobody waits any more for what
	// it has asked the API server.
	Gone func()
	// Other, if not nil, returns another link, nil if there is none, that is broken while
	// the part is killed.
	Other func() *Link

	mu   sync.Mutex
	run  *Component
	link *Link
}

var _ Part = &Linked{}

// Start starts the part.
func (l *Linked) Start(ctx context.Context, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		return ErrRunning
	}
	link, err := NewLink(l.Address)
	if err != nil {
		return err
	}
	run, err := Run(ctx, l.Name, l.Failed, func(ctx context.Context) (func() error, error) { return l.Setup(ctx, link.Address()) })
	if err != nil {
		return errors.Join(err, link.Close())
	}
	l.run, l.link = run, link
	return nil
}

// Stop ends the part as SIGTERM would.
func (l *Linked) Stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// end ends the part and its link. The caller holds the lock.
func (l *Linked) end() error {
	if l.run == nil {
		return nil
	}
	err := errors.Join(l.run.Stop(), l.link.Close())
	l.run, l.link = nil, nil
	return err
}

// Kill ends the part as SIGKILL would: not even what it does to clean up reaches others.
func (l *Linked) Kill(string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		return nil
	}
	l.run.doom()
	err := l.link.Close()
	l.Gone()
	if other := l.other(); other != nil {
		err = errors.Join(err, other.Sever())
		defer other.Mend()
	}
	return errors.Join(err, l.end())
}

func (l *Linked) other() *Link {
	if l.Other == nil {
		return nil
	}
	return l.Other()
}

// Cut cuts the link. It fails if the part does not run.
func (l *Linked) Cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		return errors.New("it is not running")
	}
	defer l.Gone()
	return l.link.Sever()
}

// Reconnect mends the link.
func (l *Linked) Reconnect() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		l.link.Mend()
	}
	return nil
}

// Connected tells whether the part runs and reaches the API server.
func (l *Linked) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run != nil && l.link.open()
}

// While calls look if the part runs, and keeps it running meanwhile.
func (l *Linked) While(look func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		look()
	}
}
