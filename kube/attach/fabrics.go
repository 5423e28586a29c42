// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// credentialsPeriod is the time between two looks at a Fabric's Secret.
const credentialsPeriod = time.Minute

// deniedPeriod is the time between two looks at what may be written, where something
// may not: an administrator is about to change that.
const deniedPeriod = 5 * time.Second

// closeTimeout limits the end of a manager's session, and askTimeout the question who it is: nobody else waits for a
// manager, but a reconciler does in these two.
const (
	closeTimeout = 5 * time.Second
	askTimeout   = 20 * time.Second
)

// reconcilers is how many Fabrics are reconciled at once, so that a manager that hangs holds up no other Fabric.
const reconcilers = 16

// Fabrics runs a loop for each Fabric. It is a reconciler of Fabrics.
type Fabrics struct {
	client    client.Client
	live      client.Reader
	informers informers
	recorder  events.EventRecorder
	metrics   *metrics
	log       logr.Logger
	now       func() time.Time
	policy    func(*v1alpha1.Fabric) fabric.Policy
	connect   func(*v1alpha1.Fabric, credentials, func(fabric.DeviceRef) bool) (Service, error)

	// mu is held for a moment only: never while a manager, or the API, is waited for.
	mu     sync.Mutex
	closed bool
	loops  map[string]*running
}

// running is a loop and what it was started for.
type running struct {
	version string
	stop    context.CancelFunc
	ended   chan struct{}
	// invalid is what is wrong with the Fabric as it is now, nil if nothing is.
	invalid *atomic.Pointer[string]
	loop    *loop           // of which only the inbox and the Fabric are used
	denied  map[string]bool // as the loop knows; for the Fabric's reconciler alone
}

// deny tells the loop of which drivers no device is to be offered, if that is new.
func (r *running) deny(drivers map[string]bool) {
	if !maps.Equal(r.denied, drivers) {
		r.denied = drivers
		r.loop.inbox.put(func() { r.loop.deny(drivers) })
	}
}

// retries is when a Fabric with which something is wrong is looked at again: soon, and
// never later than one with which nothing is.
func retries() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](time.Second, credentialsPeriod)
}

// Options are those of an embedder. The zero value is what a cluster needs.
type Options struct {
	// Tune changes what follows from a Fabric before its planner starts, such as the
	// times between looks at its manager. It may be called by several goroutines.
	Tune func(*fabric.Policy)
}

// policy is what a Fabric says, tuned.
func (o Options) policy(f *v1alpha1.Fabric) fabric.Policy {
	policy := policyOf(f)
	if o.Tune != nil {
		o.Tune(&policy)
	}
	return policy
}

// AddTo has a manager run the loops while it is the leader. When the manager has
// stopped, all that they started has ended. A process may do so again and again, and
// with several managers, each with a registry of its own.
func AddTo(mgr ctrl.Manager, registry prometheus.Registerer, options Options) error {
	m, err := newMetrics(registry)
	if err != nil {
		return err
	}
	f := &Fabrics{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), informers: mgr.GetCache(),
		recorder: mgr.GetEventRecorder("kerf-controller"), metrics: m, log: mgr.GetLogger().WithName("fabric"),
		now: wallClock, policy: options.policy, connect: newRedfish, loops: map[string]*running{},
	}
	if err := mgr.Add(f); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Fabric{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// A Fabric that is deleted waits for its attachments to be gone.
		Watches(&v1alpha1.DeviceAttachment{}, handler.EnqueueRequestsFromMapFunc(fabricOf), builder.WithPredicates(onlyDeletions)).
		// The name is checked against all controllers that this process ever had.
		WithOptions(controller.Options{
			SkipNameValidation: ptr.To(true), RateLimiter: retries(), MaxConcurrentReconciles: reconcilers,
		}).
		Complete(f)
}

// onlyDeletions lets through that an object is gone.
var onlyDeletions = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// fabricOf has the Fabric of an attachment looked at.
func fabricOf(_ context.Context, o client.Object) []ctrl.Request {
	if a, ok := o.(*v1alpha1.DeviceAttachment); ok {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: a.Spec.Fabric}}}
	}
	return nil
}

// wallClock is as fine as times in the API.
func wallClock() time.Time { return time.Now().Truncate(time.Microsecond) }

// Start ends all loops when the context ends.
func (f *Fabrics) Start(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	f.closed = true
	all := maps.Clone(f.loops)
	f.mu.Unlock()
	// All end at once: each has a session to end.
	for _, r := range all {
		r.stop()
	}
	for name := range all {
		f.stop(name)
	}
	return nil
}

// running is the loop of a Fabric, nil if it has none.
func (f *Fabrics) running(name string) *running {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loops[name]
}

// Reconcile has the loop of a Fabric be for its spec and its credentials as they
// are. Several Fabrics are reconciled at once, one of a name.
func (f *Fabrics) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o := &v1alpha1.Fabric{}
	if err := f.client.Get(ctx, request.NamespacedName, o); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		f.stop(request.Name)
		return ctrl.Result{}, nil
	}
	if o.DeletionTimestamp != nil {
		if ended, err := f.end(ctx, o); err != nil || ended {
			return ctrl.Result{}, err
		}
	} else if err := f.hold(ctx, o.Name); err != nil {
		return ctrl.Result{}, err
	}
	if err := f.reconcile(ctx, o); err != nil {
		if f.revoked(ctx, o.Name) {
			f.stop(o.Name)
		}
		return ctrl.Result{}, errors.Join(err, f.invalid(ctx, o, err))
	}
	if r := f.running(o.Name); r != nil && len(r.denied) > 0 {
		return ctrl.Result{RequeueAfter: deniedPeriod}, nil
	}
	return ctrl.Result{RequeueAfter: credentialsPeriod}, nil
}

func (f *Fabrics) reconcile(ctx context.Context, o *v1alpha1.Fabric) error {
	if err := errors.Join(checkHandOver(o), checkGuards(o), checkAmounts(o)); err != nil {
		return err
	}
	c, err := readCredentials(ctx, f.live, o)
	if err != nil {
		return err
	}
	denied := f.deniedDrivers(ctx, o)
	version := fmt.Sprintf("%s/%d/%s/%t", o.UID, o.Generation, c.version, o.DeletionTimestamp != nil)
	if r := f.running(o.Name); r != nil {
		select {
		case <-r.ended:
		default:
			if r.version == version {
				r.invalid.Store(nil)
				r.deny(denied)
				return nil
			}
		}
	}
	devices := newBegun()
	manager, err := f.connect(o, c, devices.has)
	if err != nil {
		return err
	}
	if err := f.sameService(ctx, o, manager); err != nil {
		return errors.Join(err, closed(manager))
	}
	f.stop(o.Name)
	if !f.start(o, version, manager, devices, denied) {
		return closed(manager)
	}
	return nil
}

// revoked tells whether a Fabric's loop has credentials that it may not send any more.
// One that goes on although the Fabric has become invalid has those that it was
// started with.
func (f *Fabrics) revoked(ctx context.Context, name string) bool {
	r := f.running(name)
	if r == nil {
		return false
	}
	_, err := readCredentials(ctx, f.live, r.loop.fabric)
	unbound := (*unboundError)(nil)
	return errors.As(err, &unbound)
}

// invalid says in the Fabric's status what is wrong with it. The loop, if there is
// one, goes on with what it was started with.
func (f *Fabrics) invalid(ctx context.Context, o *v1alpha1.Fabric, why error) error {
	message := shortened(why.Error())
	if r := f.running(o.Name); r != nil {
		r.invalid.Store(&message)
	}
	return f.say(ctx, o, unready("Invalid", message))
}

// unready is the condition of a Fabric that is not ready.
func unready(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.FabricReady, Status: metav1.ConditionFalse, Reason: reason, Message: shortened(message)}
}

// closed ends a manager's session.
func closed(manager Service) error {
	ctx, done := context.WithTimeout(context.Background(), closeTimeout)
	defer done()
	return manager.Close(ctx)
}

// start runs a loop until stop, unless all are to end.
func (f *Fabrics) start(o *v1alpha1.Fabric, version string, manager Service, devices *begun, denied map[string]bool) bool {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{version: version, stop: cancel, ended: make(chan struct{}), invalid: &atomic.Pointer[string]{}, denied: denied}
	l := f.newLoop(o.DeepCopy(), manager, devices)
	l.denied, r.loop = denied, l
	l.publish.invalid = r.invalid
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		cancel()
		return false
	}
	f.loops[o.Name] = r
	go func() {
		defer close(r.ended)
		defer cancel()
		f.run(ctx, l)
		if err := closed(manager); err != nil {
			l.log.Info("Cannot end the session", "err", err)
		}
	}()
	return true
}

func (f *Fabrics) run(ctx context.Context, l *loop) {
	handlers, err := l.watch(ctx, f.informers)
	defer func() {
		for _, w := range handlers {
			if err := w.informer.RemoveEventHandler(w.registration); err != nil {
				l.log.Error(err, "Cannot end a watch")
			}
		}
	}()
	if err != nil {
		if ctx.Err() == nil {
			// Reconcile starts it again.
			l.log.Error(err, "Cannot start")
		}
		return
	}
	l.run(ctx)
}

func (f *Fabrics) newLoop(o *v1alpha1.Fabric, manager Service, devices *begun) *loop {
	log, policy := f.log.WithValues("fabric", o.Name), f.policy(o)
	return &loop{
		fabric: o, planner: fabric.New(policy), pools: newPools(o), nodes: newNodes(o.Spec.Machines),
		guards: newGuards(policy, f.now), begun: devices, inbox: newInbox(), metrics: f.metrics, log: log, now: f.now,
		carry: &carrier{
			fabric: o, client: f.client, live: f.live, manager: manager,
			tell: &teller{recorder: f.recorder, live: f.live, log: log},
		},
		publish: &publisher{
			fabric: o, client: f.client, live: f.live, metrics: f.metrics, now: f.now, newest: make(chan *snapshot, 1),
		},
		api: make(chan struct{}, apiSteps), manager: make(chan struct{}, managerSteps), phases: map[string]v1alpha1.Phase{},
		stale: true, neighbours: newNeighbours(o),
	}
}

// stop ends a loop and waits for all that it started.
func (f *Fabrics) stop(name string) {
	r := f.running(name)
	if r == nil {
		return
	}
	r.stop()
	<-r.ended
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loops[name] == r {
		delete(f.loops, name)
	}
}
