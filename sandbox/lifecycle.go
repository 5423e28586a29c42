// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/part"
	"kerf.dev/kerf/sandbox/rack"
)

// Stop shuts the sandbox down and waits for the end: its parts stop in the reverse of the
// order in which they start, etcd last. Then nothing is left of
// it: no port, no goroutine, no file. Stop returns what went wrong in the life
// of the sandbox or in shutting down, every time it is called.
func (s *Sandbox) Stop() error {
	s.stopOnce.Do(func() { close(s.stop) })
	<-s.done
	return s.err
}

// Done is closed when the sandbox has shut down, whoever asked for it.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Client returns a client with all rights and no rate limit.
func (s *Sandbox) Client() kubernetes.Interface { return s.client }

// Dynamic returns a dynamic client with all rights and no rate limit.
func (s *Sandbox) Dynamic() dynamic.Interface { return s.dynamic }

// Parts are those of the sandbox in the order in which they start. Requests of a part that
// is killed or cut off are not carried out any more if they are held.
func (s *Sandbox) Parts() part.Table { return s.parts }

// Holds are what can be held back of what parts ask of the API server.
func (s *Sandbox) Holds() *Holds { return &s.holds }

// Rack is what the sandbox runs for fabrics.
func (s *Sandbox) Rack() *rack.Rack { return s.rack }

// Config returns a copy of the REST configuration of these clients.
func (s *Sandbox) Config() *rest.Config { return rest.CopyConfig(s.config) }

// State reads the state of the cluster as the API server keeps it.
func (s *Sandbox) State(ctx context.Context) (*cluster.State, error) {
	return cluster.Read(ctx, s.store.read)
}

// Kubeconfig is the path of a kubeconfig with all rights. It contains a private
// key; the file is readable by its owner only and goes with the sandbox.
func (s *Sandbox) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// LogFile is the path of the components' log. It goes with the sandbox.
func (s *Sandbox) LogFile() string { return filepath.Join(s.dir, "components.log") }

// TimeToReady is how long Start took.
func (s *Sandbox) TimeToReady() time.Duration { return s.ready }

// TimeToFirstBound is how long after the call of Start a node saw the first pod
// bound to it; false if there was none yet.
func (s *Sandbox) TimeToFirstBound() (time.Duration, bool) { return s.firstBound.get() }

// supervise waits for the end of the sandbox and brings it about.
func (s *Sandbox) supervise(ctx context.Context) {
	defer close(s.done)
	var err error
	select {
	case <-s.stop:
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.err = errors.Join(err, s.shutdown())
}

// shutdown stops whatever of the sandbox has been started.
func (s *Sandbox) shutdown() error {
	s.holds.close()
	errs := []error{s.parts.StopAll()}
	if s.listener != nil {
		// Otherwise the API server has closed it.
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.config != nil {
		// Connections to a server that is gone would linger in the idle pool.
		errs = append(errs, part.CloseIdle(s.config))
	}
	if s.log != nil {
		errs = append(errs, s.log.close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
