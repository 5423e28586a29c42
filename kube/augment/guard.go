// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// GuardConfig is what a driver tells its Guard.
type GuardConfig struct {
	// Client reads DeviceAttachments and writes their status.
	Client dynamic.Interface
	// Node is the name of the driver's node.
	Node string
	// Publisher publishes the driver's devices. Its directory must be writable.
	Publisher *Publisher
}

// Guard keeps devices that are attached to a node for the claims that they are
// attached for: before such a device arrives there is a file in the Publisher's
// directory that puts the claim's taint on it, and the DeviceAttachment says so. When
// the claim has the device, or does not get it, the file is taken away.
type Guard struct {
	config   GuardConfig
	informer cache.SharedIndexInformer
	poked    chan struct{} // has a value when there is something to look at
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

var attachmentsResource = v1alpha1.SchemeGroupVersion.WithResource("deviceattachments")

// guardRetry is the wait after an error.
const guardRetry = 5 * time.Second

// NewGuard returns when the files of all attachments that exist are in place, and those
// of attachments that are gone are not: a driver that publishes then publishes no
// device without its taint. It waits for the API server, and ends with the context or
// with Close, which leaves the files. What goes wrong later the Publisher's Report is
// told.
func NewGuard(ctx context.Context, config GuardConfig) (*Guard, error) {
	switch {
	case config.Client == nil:
		return nil, errors.New("guard: client is nil: give one that may watch deviceattachments.fabric.kerf.dev")
	case config.Node == "":
		return nil, errors.New("guard: node is empty: give the name of the driver's node")
	case config.Publisher == nil:
		return nil, errors.New("guard: publisher is nil: give the one that publishes the driver's devices")
	}
	ctx, stop := context.WithCancel(ctx)
	g := &Guard{config: config, poked: make(chan struct{}, 1), stop: stop}
	if err := g.start(ctx); err != nil {
		g.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	g.ended.Go(func() { g.run(ctx) })
	return g, nil
}

func (g *Guard) start(ctx context.Context) error {
	g.informer = cache.NewSharedIndexInformerWithOptions(g.attachments(), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
	if err := g.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			g.config.Publisher.report(fmt.Errorf("guard: watch the attachments of node %s: %w", g.config.Node, err))
		}
	}); err != nil {
		return err
	}
	delivered, err := g.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.poke() },
		UpdateFunc: func(any, any) { g.poke() },
		DeleteFunc: func(any) { g.poke() },
	})
	if err != nil {
		return err
	}
	g.ended.Go(func() { g.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), delivered.HasSynced) {
		return context.Cause(ctx)
	}
	g.config.Publisher.directory.whenRead(g.poke)
	_, err = g.keepFiles()
	return err
}

// attachments lists and watches those of the node.
func (g *Guard) attachments() cache.ListerWatcher {
	resource := g.config.Client.Resource(attachmentsResource)
	mine := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.node", g.config.Node).String()
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			mine(&o)
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			mine(&o)
			return resource.Watch(ctx, o)
		},
	}, g.config.Client)
}

// poke has the guard look at everything again.
func (g *Guard) poke() {
	select {
	case g.poked <- struct{}{}:
	default:
	}
}

// Close ends the guard and waits for its end. The files stay: the devices are to be
// kept while the driver is restarted.
func (g *Guard) Close() {
	g.stop()
	g.config.Publisher.directory.whenRead(nil)
	g.ended.Wait()
}

func (g *Guard) run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.poked:
		case <-retry.C:
		}
		if err := g.update(ctx); err != nil && ctx.Err() == nil {
			g.config.Publisher.report(fmt.Errorf("guard: %w", err))
			retry.Reset(guardRetry)
		}
	}
}

// update has the files, what is published, and what is said of it follow the
// attachments. One attachment that cannot be guarded does not keep others from it.
func (g *Guard) update(ctx context.Context) error {
	all, err := g.keepFiles()
	errs := []error{err, g.config.Publisher.refresh(ctx)}
	for _, a := range all {
		arriving := g.arriving(a)
		errs = append(errs, g.say(ctx, a, arriving && g.config.Publisher.inForce(fileName(a)), arriving))
	}
	return errors.Join(errs...)
}

// keepFiles writes the files that are missing, or not as they are to be, and deletes
// those of other attachments. It returns the attachments of the driver.
func (g *Guard) keepFiles() ([]*v1alpha1.DeviceAttachment, error) {
	var all []*v1alpha1.DeviceAttachment
	var errs []error
	wanted := map[string]bool{}
	for _, o := range g.informer.GetStore().List() {
		a, err := attachmentFrom(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if a.Spec.Node != g.config.Node || a.Spec.Offer.Driver != g.driver() {
			continue
		}
		all = append(all, a)
		if g.arriving(a) {
			wanted[fileName(a)] = true
			errs = append(errs, g.keepFile(a))
		}
	}
	return all, errors.Join(append(errs, g.clean(wanted))...)
}

func (g *Guard) driver() string    { return g.config.Publisher.config.Driver }
func (g *Guard) directory() string { return g.config.Publisher.directory.shelf.path }

// arriving tells whether the attachment's device may appear on the node any moment and
// is to be kept for the claim then.
func (g *Guard) arriving(a *v1alpha1.DeviceAttachment) bool {
	if a.Spec.Claim == nil || a.Spec.Identity == nil {
		return false
	}
	switch fabric.Phase(a.Status.Phase) {
	case fabric.PhaseNone, fabric.PhaseAllocated, fabric.PhaseGuarded, fabric.PhaseAttaching, fabric.PhaseAttachUnknown,
		fabric.PhaseAttached, fabric.PhaseVisible:
		return true
	default:
		return false
	}
}

func attachmentFrom(o any) (*v1alpha1.DeviceAttachment, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is watched, want an attachment", o)
	}
	a := &v1alpha1.DeviceAttachment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, a); err != nil {
		return nil, fmt.Errorf("attachment %s: %w", u.GetName(), err)
	}
	return a, nil
}

// removed is the error of a deletion, none where the file is gone already.
func removed(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
