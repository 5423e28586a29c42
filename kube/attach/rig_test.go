// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

const (
	gpuDriver = "gpu.example.com"
	machine   = "example.com/machine"
	patience  = time.Minute
)

// rig is a cluster's API, kept in memory, and a simulated fabric manager behind
// HTTPS. Between them are the loops.
type rig struct {
	t       *testing.T
	client  client.WithWatch
	service *service.Service
	fabrics *Fabrics
	events  *recorder
	// registry has the metrics of the last controller.
	registry *prometheus.Registry
	fabric   *v1alpha1.Fabric
	// secret has the credentials of all services, and names those that were made.
	secret *corev1.Secret

	// crashAt is the phase with whose writing the loop ends, once, or the kind of an
	// object that is created, or a call of the manager; empty: it does not end.
	crashAt atomic.Value
	current atomic.Pointer[running]
	crashes atomic.Int32
	deaf    atomic.Bool
	// tune changes the policy of loops that are started, beforeAttach is called with
	// each device that the manager is asked to attach; both may be nil.
	tune         func(*fabric.Policy)
	beforeAttach func(fabric.DeviceRef)
	// late has controllers that are started get claims late; nil: at once.
	late *late
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// newRig has two nodes and three GPUs, and runs the loop of their fabric.
func newRig(t *testing.T, change ...func(*v1alpha1.Fabric)) *rig {
	t.Helper()
	r := stillRig(t, change...)
	r.run()
	return r
}

// stillRig does not run the loop yet.
func stillRig(t *testing.T, change ...func(*v1alpha1.Fabric)) *rig {
	t.Helper()
	return rigWith(t, description.Config{
		Hosts:  []description.Host{{ID: "host-a"}, {ID: "host-b"}},
		Blocks: []description.Block{{ID: "gpu", Count: 3, Manufacturer: "Acme", Model: "A100"}},
		Tasks:  true,
	}, change...)
}

func rigWith(t *testing.T, config description.Config, change ...func(*v1alpha1.Fabric)) *rig {
	t.Helper()
	r := &rig{t: t, events: &recorder{}, secret: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kerf-system", Name: "fabric-credentials", Annotations: map[string]string{}},
		Data:       map[string][]byte{"username": []byte("kerf"), "password": []byte("secret")},
	}}
	var endpoint string
	var authority []byte
	r.service, endpoint, authority = r.serve(config)
	r.fabric = &v1alpha1.Fabric{
		ObjectMeta: metav1.ObjectMeta{Name: "shelf", UID: "fabric-uid", Generation: 1},
		Spec: v1alpha1.FabricSpec{
			Redfish: v1alpha1.Redfish{
				Endpoint: endpoint, CABundle: authority,
				CredentialsSecretRef: &v1alpha1.SecretReference{Namespace: "kerf-system", Name: "fabric-credentials"},
			},
			Models:   []v1alpha1.DeviceModel{{Name: "a100", Match: v1alpha1.ModelMatch{Model: "A100"}, Driver: gpuDriver}},
			Machines: v1alpha1.MachineMapping{Label: &v1alpha1.MachineLabel{Key: machine, Property: v1alpha1.MachineHostName}},
			Identity: v1alpha1.DeviceIdentity{Source: v1alpha1.IdentityUUID, Attribute: "uuid", TrimPrefix: "GPU-"},
			HandOver: v1alpha1.HandOverReallocate, Guards: []v1alpha1.GuardKind{v1alpha1.GuardDeviceTaintRule},
			IdleDetachAfter: &metav1.Duration{},
		},
	}
	for _, f := range change {
		f(r.fabric)
	}
	r.client = fake.NewClientBuilder().WithScheme(scheme(t)).
		WithStatusSubresource(&v1alpha1.Fabric{}, &v1alpha1.DeviceAttachment{}, &resourceapi.ResourceClaim{}, &resourceapi.DeviceTaintRule{}).
		WithObjects(r.fabric.DeepCopy(), r.secret.DeepCopy(), node("node-a", "host-a"), node("node-b", "host-b")).Build()
	r.acknowledge()
	return r
}

// acknowledge says of all guards that they are seen, as kerf-scheduler does, unless
// deaf is set.
func (r *rig) acknowledge() {
	rules, err := r.client.Watch(r.t.Context(), &resourceapi.DeviceTaintRuleList{})
	r.must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range rules.ResultChan() {
			rule, ok := e.Object.(*resourceapi.DeviceTaintRule)
			if !ok || e.Type != watch.Added || r.deaf.Load() {
				continue
			}
			rule.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RuleSeen, Status: metav1.ConditionTrue, Reason: "Seen"}}
			// The rule may be gone by now.
			if err := r.client.Status().Update(context.Background(), rule); client.IgnoreNotFound(err) != nil {
				r.t.Error(err)
			}
		}
	}()
	r.t.Cleanup(func() { rules.Stop(); <-ended })
}

// serve makes a fabric's manager.
func (r *rig) serve(config description.Config) (made *service.Service, endpoint string, authority []byte) {
	r.t.Helper()
	made, err := service.New(config, service.Options{Username: "kerf", Password: "secret"})
	r.must(err)
	r.t.Cleanup(made.Close)
	endpoint, authority = r.listen(http.HandlerFunc(made.Handler().ServeHTTP))
	return made, endpoint, authority
}

// listen serves over HTTPS.
func (r *rig) listen(handler http.Handler) (endpoint string, authority []byte) {
	r.t.Helper()
	certificate, authority, err := service.SelfSigned([]string{"127.0.0.1"})
	r.must(err)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	r.t.Cleanup(server.Close)
	r.permit(server.URL)
	return server.URL, authority
}

// permit has the Secret name one more endpoint.
func (r *rig) permit(endpoint string) {
	r.t.Helper()
	r.own(func(s *corev1.Secret) { s.Annotations[v1alpha1.SecretEndpoint] += " " + endpoint })
}

// own changes the Secret, as who owns it does.
func (r *rig) own(change func(*corev1.Secret)) {
	r.t.Helper()
	change(r.secret)
	if r.client == nil {
		return
	}
	now := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.secret.Namespace, Name: r.secret.Name}}
	r.get(now)
	now.Annotations, now.Data = r.secret.Annotations, r.secret.Data
	r.must(r.client.Update(r.t.Context(), now))
}

// run starts the loop of the rig's fabric, as a controller that was just elected.
func (r *rig) run() {
	r.t.Helper()
	r.fabrics = r.newFabrics()
	r.reconcile()
	r.current.Store(r.fabrics.loops[r.fabric.Name])
}

// newFabrics has no loop yet.
func (r *rig) newFabrics() *Fabrics {
	r.t.Helper()
	r.registry = prometheus.NewRegistry()
	m, err := newMetrics(r.registry)
	r.must(err)
	api := r.crashing(guardedAPI(r.t, r.client))
	f := &Fabrics{
		client: api, live: api, informers: &watcher{client: api, ctx: r.t.Context(), late: r.late}, recorder: r.events, metrics: m,
		log: testr.New(r.t), now: wallClock, policy: r.policy, connect: r.connect, loops: map[string]*running{},
	}
	r.t.Cleanup(func() { r.stop(f) })
	return f
}

// crashing ends the loop when it has written the phase of crashAt, before it learns
// of that.
func (r *rig) crashing(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			err := c.Create(ctx, o, options...)
			r.crash(strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1."), "*v1."))
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, o client.Object, options ...client.SubResourceUpdateOption) error {
			err := c.SubResource(subresource).Update(ctx, o, options...)
			if a, ok := o.(*v1alpha1.DeviceAttachment); ok && err == nil {
				r.crash(string(a.Status.Phase))
			}
			return err
		},
	})
}

// crash ends the loop where it is to crash.
func (r *rig) crash(at string) {
	if r.crashAt.CompareAndSwap(at, "") {
		r.current.Load().stop()
		r.crashes.Add(1)
	}
}

// revive starts another loop if the last one crashed.
func (r *rig) revive() {
	r.t.Helper()
	select {
	case <-r.current.Load().ended:
		r.run()
	default:
	}
}

func (r *rig) stop(f *Fabrics) {
	f.stop(r.fabric.Name)
}

func (r *rig) reconcile() {
	r.t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: r.fabric.Name}}
	if _, err := r.fabrics.Reconcile(r.t.Context(), request); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) policy(f *v1alpha1.Fabric) fabric.Policy {
	p := hurried(f)
	if r.tune != nil {
		r.tune(&p)
	}
	return p
}

// connect has the rig look at calls of the manager.
func (r *rig) connect(f *v1alpha1.Fabric, c credentials, ours func(fabric.DeviceRef) bool) (Service, error) {
	m, err := newRedfish(f, c, ours)
	return &spied{m, r}, err
}

type spied struct {
	manager

	rig *rig
}

// manager is another name for the interface, which has a method of its own.
type manager = Service

// Attach is the manager's.
func (s *spied) Attach(ctx context.Context, device fabric.DeviceRef, machine fabric.MachineRef) (fabric.Operation, error) {
	if s.rig.beforeAttach != nil {
		s.rig.beforeAttach(device)
	}
	op, err := s.manager.Attach(ctx, device, machine)
	s.rig.crash("Attach")
	return op, err
}

// Inventory is the manager's.
func (s *spied) Inventory(ctx context.Context) (fabric.Inventory, error) {
	inventory, err := s.manager.Inventory(ctx)
	s.rig.crash("Inventory")
	return inventory, err
}

// hurried is the policy of a Fabric with short waits.
func hurried(f *v1alpha1.Fabric) fabric.Policy {
	p := policyOf(f)
	p.DrainGrace, p.SettleTime, p.RetryDelay = time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
	p.UnlikeAfter = 10 * time.Millisecond
	p.PollInterval, p.InventoryInterval = 5*time.Millisecond, 20*time.Millisecond
	return p
}

func node(name, host string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{machine: host}}}
}

// eventually waits for something to become true. It says what did not.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	end := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) {
			r.t.Fatalf("not in %s: %s\n%s", patience, what, r.show())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rig) show() string {
	var b strings.Builder
	for _, a := range r.attachments() {
		fmt.Fprintf(&b, "attachment %s: %s %s %s\n", a.Name, a.Status.Phase, a.Status.Reason, a.Status.Message)
	}
	fmt.Fprintf(&b, "%s", strings.Join(r.events.all(), "\n"))
	return b.String()
}

func (r *rig) attachments() []v1alpha1.DeviceAttachment {
	r.t.Helper()
	var list v1alpha1.DeviceAttachmentList
	r.list(&list)
	return list.Items
}

func (r *rig) list(list client.ObjectList) {
	r.t.Helper()
	if err := r.client.List(r.t.Context(), list); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(o client.Object) {
	r.t.Helper()
	if err := r.client.Get(r.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// offered are the devices that the fabric publishes, by name.
func (r *rig) offered() map[string]resourceapi.Device {
	r.t.Helper()
	var list resourceapi.ResourceSliceList
	r.list(&list)
	devices := map[string]resourceapi.Device{}
	for _, s := range list.Items {
		if s.Spec.Pool.Name != fabric.PoolName(r.fabric.Name) {
			continue
		}
		for _, d := range s.Spec.Devices {
			devices[d.Name] = d
		}
	}
	return devices
}

// offerOf is the name under which a block is published.
func offerOf(block string) string {
	return fabric.DeviceName(fabric.DeviceRef("/redfish/v1/CompositionService/ResourceBlocks/" + block))
}

// claim makes a claim that is allocated a block for a node, for a pod.
func (r *rig) claim(name, block, node string) *resourceapi.ResourceClaim {
	r.t.Helper()
	return r.claimOffer(name, offerOf(block), node)
}

// claimOffer makes a claim that is allocated a device of the fabric's pool.
func (r *rig) claimOffer(name, device, node string) *resourceapi.ResourceClaim {
	r.t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	r.must(r.client.Create(r.t.Context(), c))
	r.allocate(c, fabric.LocalDevice{Driver: gpuDriver, Pool: fabric.PoolName(r.fabric.Name), Device: device}, node)
	return c
}

// allocate gives a claim a device, as the scheduler does.
func (r *rig) allocate(c *resourceapi.ResourceClaim, d fabric.LocalDevice, node string) {
	r.t.Helper()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	c.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{
			AllocationTimestamp: &now,
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: d.Driver, Pool: d.Pool, Device: d.Device,
			}}},
		},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod-" + c.Name, UID: types.UID("pod-uid-" + c.Name)}},
	}
	r.must(r.client.Status().Update(r.t.Context(), c))
}

// drive publishes what a host sees as a vendor's driver on its node does.
func (r *rig) drive(node, host string) {
	r.t.Helper()
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
	err := r.client.Get(r.t.Context(), client.ObjectKeyFromObject(s), s)
	fresh := err != nil
	s.Spec = resourceapi.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: ptr.To(node),
		Pool: resourceapi.ResourcePool{Name: node, Generation: s.Spec.Pool.Generation + 1, ResourceSliceCount: 1},
	}
	for i, d := range r.service.Sees(host) {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: ptr.To("GPU-" + strings.ToUpper(d.UUID))}},
		})
	}
	if fresh {
		r.must(r.client.Create(r.t.Context(), s))
		return
	}
	r.must(r.client.Update(r.t.Context(), s))
}

// watcher hands the events of the rig's API to handlers.
type watcher struct {
	client client.WithWatch
	ctx    context.Context
	// started, if set, is told how to end a watch that was begun.
	started func(stop func())
	late    *late
}

// late keeps claims back until it is released, and counts who asks for them.
type late struct {
	released chan struct{}
	asked    atomic.Int32
}

// ready tells whether claims are delivered.
func (l *late) ready() bool {
	l.asked.Add(1)
	select {
	case <-l.released:
		return true
	default:
		return false
	}
}

// GetInformer is a cache's.
func (w *watcher) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &watching{watcher: w, object: o}, nil
}

type watching struct {
	cache.Informer // nil: what is not below is not called

	watcher *watcher
	object  client.Object
}

// registered is the registration of a handler.
type registered struct {
	toolscache.ResourceEventHandlerRegistration

	stop   func()
	synced func() bool
}

// HasSynced tells whether what exists was delivered.
func (h *registered) HasSynced() bool { return h.synced() }

// AddEventHandler watches first and lists then, so that nothing is missed.
func (w *watching) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	kind, err := apiutil.GVKForObject(w.object, w.watcher.client.Scheme())
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	empty, err := w.watcher.client.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	list, _ := empty.(client.ObjectList)
	changes, err := w.watcher.client.Watch(w.watcher.ctx, list)
	if err != nil {
		return nil, err
	}
	if err := w.watcher.client.List(w.watcher.ctx, list); err != nil {
		return nil, err
	}
	there, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	deliver := sync.OnceFunc(func() {
		for _, o := range there {
			h.OnAdd(o, true)
		}
	})
	synced := func() bool { deliver(); return true }
	_, claims := w.object.(*resourceapi.ResourceClaim)
	held := w.watcher.late
	if claims && held != nil {
		synced = func() bool {
			if held.ready() {
				deliver()
				return true
			}
			return false
		}
	} else {
		deliver()
	}
	var delivered sync.WaitGroup
	delivered.Go(func() {
		if claims && held != nil {
			<-held.released
		}
		for e := range changes.ResultChan() {
			switch e.Type {
			case watch.Deleted:
				h.OnDelete(e.Object)
			case watch.Added:
				h.OnAdd(e.Object, false)
			default:
				h.OnUpdate(nil, e.Object)
			}
		}
	})
	stop := sync.OnceFunc(func() { changes.Stop(); delivered.Wait() })
	if w.watcher.started != nil {
		w.watcher.started(stop)
	}
	return &registered{stop: stop, synced: synced}, nil
}

// RemoveEventHandler ends the watch.
func (w *watching) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if h, ok := r.(*registered); ok {
		h.stop()
	}
	return nil
}

// recorder keeps events: kind and name of the object, reason, note.
type recorder struct {
	mu    sync.Mutex
	notes []string
}

// Eventf is a recorder's.
func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, _ := regarding.(client.Object)
	r.notes = append(r.notes, fmt.Sprintf("%T %s: %s %s: %s", regarding, object.GetName(), kind, reason, fmt.Sprintf(note, args...)))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.notes...)
}

// has tells whether there is an event that contains a text.
func (r *recorder) has(part string) bool { return strings.Contains(strings.Join(r.all(), "\n"), part) }
