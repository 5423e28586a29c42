// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/kube/scheduler"
	"kerf.dev/kerf/sandbox/hollow"
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
	observer   *observer
	firstBound firstBound

	schedulerCert keyPair
	schedulerMu   sync.Mutex
	scheduler     *schedulerRun

	// The parts in the order in which they start; they stop in reverse.
	store       *store
	apiServer   *part.Component
	holds       holds
	controllers *part.Component
	kubelets    *part.Component
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
	for _, step := range []struct {
		progress string
		run      func(context.Context) error
	}{
		{"starting etcd", s.startStore},
		{"starting kube-apiserver", s.startAPIServer},
		{"starting controllers and nodes", s.startControllers},
		{"permitting the scheduler", s.permitScheduler},
		{"starting the scheduler", s.StartScheduler},
	} {
		s.progress(step.progress)
		if err := step.run(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) startStore(ctx context.Context) (err error) {
	s.store, err = startStore(ctx, s.dir, s.log)
	return err
}

// startAPIServer starts the API server and waits until it is ready.
func (s *Sandbox) startAPIServer(ctx context.Context) error {
	var err error
	if s.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	options, err := apiServerOptions(s.dir, s.store.endpoint, s.listener, s.ca)
	if err != nil {
		return err
	}
	if s.apiServer, err = startAPIServer(ctx, options, &s.holds, s.fail); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// connect prepares the identities and the clients of the sandbox.
func (s *Sandbox) connect() error {
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	s.address = s.listener.Addr().String()
	if s.schedulerCert, err = s.ca.client(schedulerUser); err != nil {
		return err
	}
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
	s.rack = rack.New(s.forRack())
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

// readyLimit bounds how long the API server may take to become ready.
const readyLimit = 5 * time.Minute

// waitReady waits until the API server is ready and pods can be created. It
// does so even if the context is cancelled: an API server that is stopped
// before it is ready ends the process.
func (s *Sandbox) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyLimit)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-s.failed:
			return false, err
		default:
		}
		if _, last = s.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); last != nil {
			return false, nil
		}
		_, last = s.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w; last answer of kube-apiserver: %w", err, last)
	}
	return err
}

func (s *Sandbox) startControllers(ctx context.Context) error {
	cert, err := s.ca.client(controllersUser, "system:masters")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(s.dir, "controllers.kubeconfig")
	if err := writeKubeconfig(kubeconfig, "https://"+s.address, s.ca.pem, cert); err != nil {
		return err
	}
	if s.controllers, err = startControllers(ctx, kubeconfig, s.fail); err != nil {
		return err
	}
	if s.observer, err = newObserver(ctx, s.config); err != nil {
		return err
	}
	if err := s.startKubelets(ctx); err != nil {
		return err
	}
	return s.AddNodes(ctx, s.options.Nodes)
}

func (s *Sandbox) startKubelets(ctx context.Context) error {
	kubelets, err := hollow.New(s.client, func(*corev1.Pod) { s.firstBound.observe(time.Since(s.started)) })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.kubelets = part.Run("hollow nodes", cancel, s.fail, func() error { return kubelets.Run(ctx) })
	return nil
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
