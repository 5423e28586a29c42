// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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

// newController returns kerf-controller. When it is killed, it does not reach the shelf's
// service any more either.
func (r *Rack) newController() *part.Linked {
	return &part.Linked{
		Name: "kerf-controller", Address: r.in.Address, Failed: r.in.Failed,
		Gone: func() { r.in.Abandon("controller") },
		Other: func() *part.Link {
			if shelf := r.shelf(); shelf != nil {
				return shelf.cable
			}
			return nil
		},
		Setup: r.setUpController,
	}
}

// setControllerLogger is done once: the logger is global, and goes where klog goes.
var setControllerLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.NewKlogr()) })

func (r *Rack) setUpController(ctx context.Context, address string) (run func() error, err error) {
	if !r.installed.Load() {
		return nil, errors.New("no kinds of a fabric are installed: start the rack first")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	setControllerLogger()
	config, err := r.in.As("https://"+address, ControllerUser, ControllerGroups...)
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
	return func() error {
		err := mgr.Start(ctx)
		if ctx.Err() != nil {
			err = nil // One that was cut off cannot end in good order.
		}
		return errors.Join(err, part.CloseIdle(config))
	}, nil
}
