// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/kube/attach"
)

// controllerUser is the service account of deploy/controller: kerf-controller has
// the rights that are bound to it and no others.
const controllerUser = "system:serviceaccount:" + FabricNamespace + ":kerf-controller"

// controllerGroups are those of a service account.
var controllerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + FabricNamespace, "system:authenticated"}

// controllerRun is one run of kerf-controller, from start to stop or kill.
type controllerRun struct {
	*component
	config *rest.Config
	link   *link
}

// hurry sets times that suit a manager which takes less than a second for an
// operation.
func hurry(p *fabric.Policy) {
	p.DrainGrace = 500 * time.Millisecond
	p.SettleTime = time.Second
	p.PollInterval = 100 * time.Millisecond
	p.InventoryInterval = 500 * time.Millisecond
	p.RetryDelay = 250 * time.Millisecond
	p.HandOverTimeout = 10 * time.Second
	p.UnlikeAfter = 300 * time.Millisecond
}

func (s *Sandbox) tune(p *fabric.Policy) {
	hurry(p)
	if s.options.Fabric != nil {
		s.options.Fabric(p)
	}
}

// StartController starts kerf-controller, with no memory of an earlier run. It fails
// if it is running. StartFabric must have been called before.
func (s *Sandbox) StartController(ctx context.Context) error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	switch {
	case !s.fabric.installed:
		return errors.New("start kerf-controller: the sandbox has no fabric")
	case s.fabric.controller != nil:
		return errors.New("start kerf-controller: it is running")
	}
	return s.startController(ctx)
}

// startController starts it. The caller holds the lock.
func (s *Sandbox) startController(ctx context.Context) error {
	cable, err := newLink(s.address)
	if err != nil {
		return fmt.Errorf("start kerf-controller: %w", err)
	}
	run, err := s.newControllerRun(ctx, cable)
	if err != nil {
		return fmt.Errorf("start kerf-controller: %w", errors.Join(err, cable.close()))
	}
	s.fabric.controller = run
	return nil
}

// StopController ends kerf-controller as SIGTERM would and waits for its end. It does
// nothing if it is not running.
func (s *Sandbox) StopController() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	return s.stopController()
}

func (s *Sandbox) stopController() error {
	if s.fabric.controller == nil {
		return nil
	}
	err := s.fabric.controller.end()
	s.fabric.controller = nil
	return err
}

// KillController ends kerf-controller as SIGKILL would: from the moment of the call
// nothing that it does reaches the API server or the shelf's service any more. It does
// nothing if it is not running.
func (s *Sandbox) KillController() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if s.fabric.controller == nil {
		return nil
	}
	s.fabric.controller.stopping.Store(true)
	err := s.fabric.controller.link.close()
	s.holds.abandon("controller")
	if shelf := s.shelf(); shelf != nil {
		err = errors.Join(err, shelf.cable.sever())
		defer shelf.cable.mend()
	}
	return errors.Join(err, s.stopController())
}

// DisconnectController cuts the connection between kerf-controller and the API server
// until ReconnectController.
func (s *Sandbox) DisconnectController() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if s.fabric.controller == nil {
		return errors.New("disconnect kerf-controller: it is not running")
	}
	defer s.holds.abandon("controller")
	return s.fabric.controller.link.sever()
}

// ReconnectController ends what DisconnectController has begun.
func (s *Sandbox) ReconnectController() {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if s.fabric.controller != nil {
		s.fabric.controller.link.mend()
	}
}

// setControllerLogger is done once: the logger is global, and goes where klog goes.
var setControllerLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.NewKlogr()) })

func (s *Sandbox) newControllerRun(ctx context.Context, cable *link) (*controllerRun, error) {
	cert, err := s.ca.client(controllerUser, controllerGroups...)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	setControllerLogger()
	config := clientConfig("https://"+cable.address(), s.ca.pem, cert)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, err
	}
	if err := attach.AddTo(mgr, prometheus.NewRegistry(), attach.Options{Tune: s.tune}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &controllerRun{config: config, link: cable}
	run.component = runComponent("kerf-controller", cancel, s.fail, func() error {
		err := mgr.Start(ctx)
		if ctx.Err() != nil {
			return nil // One that was cut off cannot end in good order.
		}
		return err
	})
	return run, nil
}

// end stops the controller and everything that it has left running.
func (r *controllerRun) end() error {
	err := r.stop()
	return errors.Join(err, r.link.close(), closeIdle(r.config))
}
