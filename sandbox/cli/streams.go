// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Streams are the standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// silence, if not nil, keeps from standard error what is not written to Err.
	silence func() error
}

// StandardStreams are those of the process. Err is a duplicate of standard
// error, so that os.Stderr can be silenced.
func StandardStreams() (Streams, error) {
	fd, err := syscall.Dup(syscall.Stderr)
	if err != nil {
		return Streams{}, fmt.Errorf("duplicate standard error: %w", err)
	}
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.NewFile(uintptr(fd), os.Stderr.Name()), silence: silenceStderr}, nil
}

// silenceStderr sends to nowhere what is written to os.Stderr. The etcd client
// in kube-apiserver logs there every request that is cancelled, and neither
// level nor destination of its logger can be set: it took hold of os.Stderr
// when the process started. So the file is replaced, not the variable. Panics
// do not go through os.Stderr and stay visible: descriptor 2 stays what it was.
func silenceStderr() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("silence standard error: %w", err)
	}
	replaced = append(replaced, *os.Stderr)
	*os.Stderr = *null
	return nil
}

// replaced keeps what os.Stderr was for the life of the process. A file that nobody
// can reach is closed; then the next socket would be descriptor 2, and a panic would
// be written to whoever is at its other end.
var replaced []os.File
