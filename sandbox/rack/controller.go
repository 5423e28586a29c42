// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

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
	"kerf.dev/kerf/sandbox/part"
)

// ControllerUser is the service account of deploy/controller: kerf-controller has
// the rights that are bound to it and no others.
const ControllerUser = "system:serviceaccount:" + Namespace + ":kerf-controller"

// ControllerGroups are those of a service account.
var ControllerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"}

// controllerRun is one run of kerf-controller, from start to stop or kill.
type controllerRun struct {
	*part.Component
	config *rest.Config
	link   *part.Link
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

func (r *Rack) tune(p *fabric.Policy) {
	hurry(p)
	if r.in.Tune != nil {
		r.in.Tune(p)
	}
}

// StartController starts kerf-controller, with no memory of an earlier run. It fails
// if it is running. Start must have been called before.
func (r *Rack) StartController(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.installed:
		return errors.New("start kerf-controller: the rack was not started")
	case r.controller != nil:
		return errors.New("start kerf-controller: it is running")
	}
	return r.startController(ctx)
}

// startController starts it. The caller holds the lock.
func (r *Rack) startController(ctx context.Context) error {
	cable, err := part.NewLink(r.in.Address)
	if err != nil {
		return fmt.Errorf("start kerf-controller: %w", err)
	}
	run, err := r.newControllerRun(ctx, cable)
	if err != nil {
		return fmt.Errorf("start kerf-controller: %w", errors.Join(err, cable.Close()))
	}
	r.controller = run
	return nil
}

// StopController ends kerf-controller as SIGTERM would and waits for its end. It does
// nothing if it is not running.
func (r *Rack) StopController() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopController()
}

func (r *Rack) stopController() error {
	if r.controller == nil {
		return nil
	}
	err := r.controller.end()
	r.controller = nil
	return err
}

// KillController ends kerf-controller as SIGKILL would: from the moment of the call
// nothing that it does reaches the API server or the shelf's service any more. It does
// nothing if it is not running.
func (r *Rack) KillController() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.controller == nil {
		return nil
	}
	r.controller.Doom()
	err := r.controller.link.Close()
	r.in.Abandon("controller")
	if shelf := r.shelf(); shelf != nil {
		err = errors.Join(err, shelf.cable.Sever())
		defer shelf.cable.Mend()
	}
	return errors.Join(err, r.stopController())
}

// DisconnectController cuts the connection between kerf-controller and the API server
// until ReconnectController.
func (r *Rack) DisconnectController() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.controller == nil {
		return errors.New("disconnect kerf-controller: it is not running")
	}
	defer r.in.Abandon("controller")
	return r.controller.link.Sever()
}

// ReconnectController ends what DisconnectController has begun.
func (r *Rack) ReconnectController() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.controller != nil {
		r.controller.link.Mend()
	}
}

// setControllerLogger is done once: the logger is global, and goes where klog goes.
var setControllerLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.NewKlogr()) })

func (r *Rack) newControllerRun(ctx context.Context, cable *part.Link) (*controllerRun, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	setControllerLogger()
	config, err := r.in.As("https://"+cable.Address(), ControllerUser, ControllerGroups...)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, err
	}
	if err := attach.AddTo(mgr, prometheus.NewRegistry(), attach.Options{Tune: r.tune}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &controllerRun{config: config, link: cable}
	run.Component = part.Run("kerf-controller", cancel, r.in.Failed, func() error {
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
	err := r.Stop()
	return errors.Join(err, r.link.Close(), part.CloseIdle(r.config))
}
