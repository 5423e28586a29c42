// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/kube/scheduler"
	"kerf.dev/kerf/sandbox/part"
	"kerf.dev/kerf/sandbox/rack"
)

// Sandbox is a running cluster in this process.
type Sandbox struct {
	options Options
	started time.Time
	ready   time.Duration

	dir        string
	log        *logSink
	ca         *authority
	listener   net.Listener
	address    string
	config     *rest.Config
	client     kubernetes.Interface
	dynamic    dynamic.Interface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
	holds      Holds
	firstBound firstBound

	// parts has all parts. Some of them can do more than others.
	parts     part.Table
	store     *store
	observer  *observer
	scheduler *schedulerPart
	// rack has nothing that runs before it is asked for.
	rack *rack.Rack

	failed   chan error
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	err      error
}

// Start starts a sandbox and returns when pods can be created and scheduled.
// When the context is cancelled, at any time, the sandbox shuts down; see Stop.
//
// There can be one sandbox at a time and, because Kubernetes registers feature
// gates, metrics and informers globally, one in the life of a process. Start
// changes the process's feature gates and the loggers of klog and gRPC.
func Start(ctx context.Context, options Options) (*Sandbox, error) {
	if options.Scheduler == nil {
		options.Scheduler = defaultScheduler()
	}
	scheduler.SurviveTrackerPanics() // as kerf-scheduler does
	s := &Sandbox{
		options: options,
		started: time.Now(),
		failed:  make(chan error, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start sandbox: %w", err), s.shutdown())
	}
	s.ready = time.Since(s.started)
	go s.supervise(ctx)
	return s, nil
}

func (s *Sandbox) start(ctx context.Context) error {
	var err error
	if s.dir, err = os.MkdirTemp(s.options.ParentDir, "kerf-sandbox-"); err != nil {
		return err
	}
	if s.log, err = openLog(s.LogFile(), s.options.Log); err != nil {
		return err
	}
	redirectLogs(s.log, s.options.Verbosity)
	if err := rules.EnableFeatures(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.store, s.observer, s.scheduler = newStore(s), newObserver(s), newScheduler(s)
	s.rack = rack.New(s.forRack())
	own := part.Table{
		{Name: "etcd", Part: s.store},
		{Name: "kube-apiserver", Part: newAPIServer(s)},
		{Name: "kube-controller-manager", Part: newControllers(s)},
		{Name: "observer", Part: s.observer},
		{Name: "nodes", Part: newKubelets(s)},
		{Name: "scheduler", Part: s.scheduler},
	}
	s.parts = append(own, s.rack.Parts()...)
	for _, p := range own {
		s.progress("starting " + p.Name)
		if err := p.Start(ctx, ""); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// connect prepares the identities and the clients of the sandbox.
func (s *Sandbox) connect() error {
	var err error
	if s.ca, err = newAuthority(); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	s.address = s.listener.Addr().String()
	admin, err := s.ca.client("kerf-sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	server := "https://" + s.address
	if err := writeKubeconfig(s.Kubeconfig(), server, s.ca.pem, admin); err != nil {
		return err
	}
	s.config = clientConfig(server, s.ca.pem, admin)
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	if s.dynamic, err = dynamic.NewForConfig(s.config); err != nil {
		return err
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
	return nil
}

// forRack is what the rack has to know of the sandbox.
func (s *Sandbox) forRack() rack.Cluster {
	return rack.Cluster{
		Address: s.address, Directory: s.dir, Admin: s.config, Client: s.client, Dynamic: s.dynamic,
		As: func(server, user string, groups ...string) (*rest.Config, error) {
			cert, err := s.ca.client(user, groups...)
			if err != nil {
				return nil, err
			}
			return clientConfig(server, s.ca.pem, cert), nil
		},
		Read:    s.store.read,
		Apply:   s.Apply,
		Watch:   func(resources ...schema.GroupVersionResource) error { return s.observer.watch(resources...) },
		Abandon: s.holds.abandon,
		Failed:  s.fail,
		Tune:    s.options.Fabric,
	}
}

func (s *Sandbox) progress(message string) {
	if s.options.Progress != nil {
		s.options.Progress(message)
	}
}

// fail records the first failure of a component; the others follow from it.
func (s *Sandbox) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}
