// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Link is a cable between one component and the API server: a TCP forwarder on
// a loopback port. Cutting it ends all communication at once, in the middle of
// whatever the component is doing, which is what the API server sees of a
// process that was killed. A link that is severed can be mended. TLS passes
// through unchanged.
type Link struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	cut     bool
	severed bool
	ends    map[net.Conn]struct{}
	tasks   sync.WaitGroup
}

// NewLink lays a cable to a target, host:port.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a component: %w", err)
	}
	l := &Link{listener: listener, target: target, ends: map[net.Conn]struct{}{}}
	l.tasks.Go(l.accept)
	return l, nil
}

// Address is where the component finds the API server, as host:port.
func (l *Link) Address() string {
	return l.listener.Addr().String()
}

// Close cuts the link and waits until nothing of it is left. Closing it again
// does nothing.
func (l *Link) Close() error {
	l.mu.Lock()
	var err error
	if !l.cut {
		l.cut = true
		err = l.listener.Close()
	}
	for conn := range l.ends {
		err = errors.Join(err, conn.Close())
	}
	clear(l.ends)
	l.mu.Unlock()
	l.tasks.Wait()
	return err
}

// Sever ends all communication until Mend: connections break, and new ones are
// closed as soon as they are made.
func (l *Link) Sever() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed = true
	var err error
	for conn := range l.ends {
		err = errors.Join(err, conn.Close())
	}
	clear(l.ends)
	return err
}

// Mend ends what Sever has begun.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed = false
}

// Aim has new connections go to another target.
func (l *Link) Aim(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// open tells whether bytes pass.
func (l *Link) open() bool {
	_, open := l.where()
	return open
}

func (l *Link) where() (target string, open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target, !l.severed && !l.cut
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.tasks.Go(func() { l.forward(client) })
	}
}

func (l *Link) forward(client net.Conn) {
	target, open := l.where()
	if !open {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		// The component sees what it would see of a stopped API server.
		_ = client.Close()
		return
	}
	if !l.register(client, server) {
		return
	}
	defer l.unregister(client, server)
	l.tasks.Go(func() {
		pump(server, client)
		l.unregister(client, server)
	})
	pump(client, server)
}

// pump copies until one side is closed; either end closes both.
func pump(to io.Writer, from io.Reader) {
	_, _ = io.Copy(to, from) // A closed connection is how a link ends.
}

// register remembers the connections for Close and Sever; after these they are
// refused.
func (l *Link) register(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		if l.cut || l.severed {
			_ = conn.Close()
			continue
		}
		l.ends[conn] = struct{}{}
	}
	return !l.cut && !l.severed
}

func (l *Link) unregister(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		if _, open := l.ends[conn]; open {
			delete(l.ends, conn)
			_ = conn.Close()
		}
	}
}
