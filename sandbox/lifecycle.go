// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
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

// Stop shuts the sandbox down and waits for the end: fabric and scheduler first,
// then nodes and controllers, the API server, and etcd last. Then nothing is left of
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
	var errs []error
	if s.rack != nil {
		errs = append(errs, s.rack.Stop())
	}
	errs = append(errs, s.StopScheduler(), s.kubelets.Stop())
	s.observer.stop()
	errs = append(errs, s.controllers.Stop())
	if s.apiServer == nil && s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	errs = append(errs, s.apiServer.Stop())
	if s.config != nil {
		// Connections to a server that is gone would linger in the idle pool.
		errs = append(errs, part.CloseIdle(s.config))
	}
	if s.store != nil {
		s.store.stop()
	}
	if s.log != nil {
		errs = append(errs, s.log.close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
