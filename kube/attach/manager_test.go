// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kerf.dev/kerf/fabric"
)

// rigCache is the cache of a manager, with nothing but the rig's API behind it.
type rigCache struct {
	cache.Cache // nil: what is not below is not called
	watcher

	api   client.Client
	mu    sync.Mutex
	stops []func()
}

func newRigCache(ctx context.Context, api client.WithWatch) *rigCache {
	c := &rigCache{api: api}
	c.watcher = watcher{client: api, ctx: ctx, started: func(stop func()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stops = append(c.stops, stop)
	}}
	return c
}

func (c *rigCache) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	return c.watcher.GetInformer(ctx, o, options...)
}

func (c *rigCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return c.api.Get(ctx, key, o, options...)
}

func (c *rigCache) List(ctx context.Context, l client.ObjectList, options ...client.ListOption) error {
	return c.api.List(ctx, l, options...)
}

func (c *rigCache) Start(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stop := range c.stops {
		stop()
	}
	return nil
}

func (c *rigCache) WaitForCacheSync(context.Context) bool { return true }

// rigManager reads from the rig's API past its cache, too.
type rigManager struct {
	ctrl.Manager

	live client.Reader
}

func (m *rigManager) GetAPIReader() client.Reader { return m.live }

// AddEventHandlerWithOptions is what controllers call.
func (w *watching) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandler(h)
}

// manage runs a manager on the rig's API until the context ends.
func (r *rig) manage(ctx context.Context, registry prometheus.Registerer, options Options) error {
	// Nothing but events goes to a server, and this one takes none.
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL}, ctrl.Options{
		Scheme: r.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return newRigCache(ctx, r.client), nil
		},
		Logger:         testr.New(r.t),
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return r.client, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return r.client.RESTMapper(), nil },
	})
	if err != nil {
		return err
	}
	if err := AddTo(&rigManager{mgr, r.client}, registry, options); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// TestManagersInOneProcess runs one manager after the other, each with its own
// metrics and timings. That nothing of them is left, the package's main test sees.
func TestManagersInOneProcess(t *testing.T) {
	r := newRig(t)
	r.stop(r.fabrics)
	for _, claim := range []string{"first", "second"} {
		ctx, cancel := context.WithCancel(t.Context())
		registry, ended, tuned := prometheus.NewRegistry(), make(chan error, 1), make(chan string, 100)
		options := Options{Tune: func(p *fabric.Policy) {
			p.PollInterval, p.InventoryInterval = 5*time.Millisecond, 20*time.Millisecond
			tuned <- p.Fabric
		}}
		go func() { ended <- r.manage(ctx, registry, options) }()
		c := r.claim(claim, map[string]string{"first": "gpu-1", "second": "gpu-2"}[claim], "node-a")
		r.eventually("the "+claim+" device arrives", func() bool {
			r.get(c)
			r.drive("node-a", "host-a")
			return attached(c)
		})
		if name := <-tuned; name != r.fabric.Name {
			t.Errorf("the policy of fabric %q is tuned, want %q", name, r.fabric.Name)
		}
		if families, err := registry.Gather(); err != nil || len(families) == 0 {
			t.Errorf("the registry has %d metrics (%v), want some", len(families), err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ends with %v", err)
		}
	}
}
