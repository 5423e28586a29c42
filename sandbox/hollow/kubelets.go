// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
)

// workers is how many pods and nodes change state at the same time.
const workers = 4

// key names an object to look at: a pod when it has a namespace, else a node.
type key struct {
	namespace, name string
}

// Kubelets are the kubelets of all nodes.
type Kubelets struct {
	client    kubernetes.Interface
	factory   informers.SharedInformerFactory
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	claims    resourcelisters.ResourceClaimLister
	byNode    cache.Indexer
	synced    []cache.InformerSynced
	queue     workqueue.TypedRateLimitingInterface[key]
	events    record.EventBroadcaster
	recorder  record.EventRecorder
	addresses atomic.Uint32
	onBound   func(*corev1.Pod)
}

// New returns the kubelets of the cluster that the client talks to. onBound, if
// not nil, is called from one goroutine for every pod seen on a node.
func New(client kubernetes.Interface, onBound func(*corev1.Pod)) (*Kubelets, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	k := &Kubelets{
		client:  client,
		factory: factory,
		pods:    factory.Core().V1().Pods().Lister(),
		nodes:   factory.Core().V1().Nodes().Lister(),
		claims:  factory.Resource().V1().ResourceClaims().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](10*time.Millisecond, 5*time.Second)),
		events:  record.NewBroadcaster(),
		onBound: onBound,
	}
	podInformer := factory.Core().V1().Pods().Informer()
	if err := podInformer.AddIndexers(cache.Indexers{nodeIndex: nodesOf}); err != nil {
		return nil, fmt.Errorf("hollow nodes: index pods by node: %w", err)
	}
	k.byNode = podInformer.GetIndexer()
	k.recorder = k.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"})

	for _, watch := range []struct {
		informer       cache.SharedIndexInformer
		added, changed func(any)
	}{
		{podInformer, k.podChanged, k.podChanged},
		{factory.Core().V1().Nodes().Informer(), k.nodeAdded, k.nodeChanged},
		{factory.Resource().V1().ResourceClaims().Informer(), k.claimChanged, k.claimChanged},
	} {
		registration, err := watch.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    watch.added,
			UpdateFunc: func(_, object any) { watch.changed(object) },
		})
		if err != nil {
			return nil, fmt.Errorf("hollow nodes: watch: %w", err)
		}
		k.synced = append(k.synced, registration.HasSynced)
	}
	return k, nil
}

// Run simulates the kubelets until the context is cancelled. When it returns,
// everything it has started has ended.
func (k *Kubelets) Run(ctx context.Context) error {
	k.events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	defer k.events.Shutdown()
	k.factory.Start(ctx.Done())
	defer k.factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), k.synced...) {
		k.queue.ShutDown()
		return ctx.Err()
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	running.Wait()
	return ctx.Err()
}

func (k *Kubelets) podChanged(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if k.onBound != nil {
		k.onBound(pod)
	}
	k.queue.Add(key{pod.Namespace, pod.Name})
}

func (k *Kubelets) nodeChanged(object any) {
	if node, ok := object.(*corev1.Node); ok {
		k.queue.Add(key{name: node.Name})
	}
}

// nodeAdded looks at the pods that are on the node already: they were left alone while
// it was gone, and a kubelet that starts goes on with what it finds.
func (k *Kubelets) nodeAdded(object any) {
	k.nodeChanged(object)
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	pods, err := k.byNode.ByIndex(nodeIndex, node.Name)
	utilruntime.Must(err) // There is such an index.
	for _, object := range pods {
		if pod, ok := object.(*corev1.Pod); ok {
			k.queue.Add(key{pod.Namespace, pod.Name})
		}
	}
}

// nodeIndex finds the pods that are on a node.
const nodeIndex = "node"

func nodesOf(object any) ([]string, error) {
	if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// claimChanged looks at the pods that may have waited for the claim.
func (k *Kubelets) claimChanged(object any) {
	c, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	for _, consumer := range c.Status.ReservedFor {
		switch {
		case claim.IsPod(consumer):
			k.queue.Add(key{c.Namespace, consumer.Name})
		case consumer.APIGroup == schedulingapi.GroupName && consumer.Resource == "podgroups":
			k.groupChanged(c.Namespace, consumer.Name)
		}
	}
}

// groupChanged looks at the pods of a PodGroup.
func (k *Kubelets) groupChanged(namespace, group string) {
	pods, err := k.pods.Pods(namespace).List(labels.Everything())
	utilruntime.Must(err) // Listing a cache with this selector cannot fail.
	for _, pod := range pods {
		if g := pod.Spec.SchedulingGroup; g != nil && ptr.Deref(g.PodGroupName, "") == group {
			k.queue.Add(key{pod.Namespace, pod.Name})
		}
	}
}

// work handles one key; false means that the queue is shut down.
func (k *Kubelets) work(ctx context.Context) bool {
	item, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(item)
	again, err := k.sync(ctx, item)
	switch {
	case ctx.Err() != nil:
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The cache is behind; the change that it misses brings the key back,
		// and so does this when that change was seen before.
		k.queue.AddRateLimited(item)
	case err != nil:
		utilruntime.HandleErrorWithContext(ctx, err, "Simulating a kubelet failed", "object", item.String())
		k.queue.AddRateLimited(item)
	default:
		k.queue.Forget(item)
		if again > 0 {
			k.queue.AddAfter(item, again)
		}
	}
	return true
}

func (k *Kubelets) sync(ctx context.Context, item key) (time.Duration, error) {
	if item.namespace == "" {
		return 0, k.syncNode(ctx, item.name)
	}
	return k.syncPod(ctx, item)
}

func (k key) String() string {
	return strings.TrimPrefix(k.namespace+"/"+k.name, "/")
}
