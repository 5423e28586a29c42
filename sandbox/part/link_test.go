// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestLink sends bytes through a link and cuts it in the middle.
func TestLink(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echoed := make(chan error, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			echoed <- err
			return
		}
		_, err = io.Copy(conn, conn)
		_ = conn.Close()
		echoed <- err
	}()

	l, err := NewLink(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	buffer := make([]byte, 4)
	if _, err := client.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, buffer); err != nil || string(buffer) != "ping" {
		t.Fatalf("echo = %q, %v", buffer, err)
	}

	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := client.Read(buffer); err == nil {
		t.Error("the client can still read")
	}
	if err := <-echoed; err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("server: %v", err)
	}
	if conn, err := net.Dial("tcp", l.Address()); err == nil {
		_ = conn.Close()
		t.Error("the link still accepts connections")
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// TestSever cuts a link, mends it, and has it lead elsewhere.
func TestSever(t *testing.T) {
	first, second := echo(t, 'a'), echo(t, 'b')
	l, err := NewLink(first)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, l.Address()); got != 'a' {
		t.Errorf("answer %q, want a", got)
	}
	if err := l.Sever(); err != nil {
		t.Error(err)
	}
	if got := ask(t, l.Address()); got != 0 {
		t.Errorf("a severed link answers %q", got)
	}
	l.Mend()
	l.Aim(second)
	if got := ask(t, l.Address()); got != 'b' {
		t.Errorf("answer %q, want b", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// ask returns the byte that is served there, 0 if nobody does.
func ask(t *testing.T, address string) byte {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	answer := make([]byte, 1)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0
	}
	return answer[0]
}

// echo serves one byte to whoever connects.
func echo(t *testing.T, answer byte) string {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{answer}) // The link may be cut.
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return server.Addr().String()
}
