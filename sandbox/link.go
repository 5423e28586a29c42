// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// link is a cable between one component and the API server: a TCP forwarder on
// a loopback port. Cutting it ends all communication at once, in the middle of
// whatever the component is doing, which is what the API server sees of a
// process that was killed. A link that is severed can be mended. TLS passes
// through unchanged.
type link struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	cut     bool
	severed bool
	ends    map[net.Conn]struct{}
	tasks   sync.WaitGroup
}

func newLink(target string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a component: %w", err)
	}
	l := &link{listener: listener, target: target, ends: map[net.Conn]struct{}{}}
	l.tasks.Go(l.accept)
	return l, nil
}

// address is where the component finds the API server, as host:port.
func (l *link) address() string {
	return l.listener.Addr().String()
}

// close cuts the link and waits until nothing of it is left. Closing it again
// does nothing.
func (l *link) close() error {
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

// sever ends all communication until mend: connections break, and new ones are
// closed as soon as they are made.
func (l *link) sever() error {
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

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed = false
}

// aim has new connections go to another target.
func (l *link) aim(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

func (l *link) where() (target string, open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target, !l.severed && !l.cut
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.tasks.Go(func() { l.forward(client) })
	}
}

func (l *link) forward(client net.Conn) {
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

// register remembers the connections for close and sever; after these they are
// refused.
func (l *link) register(conns ...net.Conn) bool {
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

func (l *link) unregister(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		if _, open := l.ends[conn]; open {
			delete(l.ends, conn)
			_ = conn.Close()
		}
	}
}
