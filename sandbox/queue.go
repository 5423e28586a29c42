// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/sandbox/cluster"
)

// queue looks at the scheduling queue. The scheduler keeps this access for
// tests and debugging, which is what a sandbox is for.
func (p *schedulerPart) queue() cluster.Queue {
	view := cluster.Queue{Profiles: map[string]bool{}, Pods: map[types.UID]cluster.Place{}}
	p.While(func() { p.lookAtQueue(&view) })
	return view
}

func (p *schedulerPart) lookAtQueue(view *cluster.Queue) {
	view.Running = true
	for _, profile := range p.config.ComponentConfig.Profiles {
		view.Profiles[profile.SchedulerName] = true
	}
	queue := p.scheduler.SchedulingQueue
	pending, _ := queue.PendingPods()
	for _, pod := range pending {
		view.Pods[pod.UID] = cluster.Parked
	}
	for _, pod := range queue.PodsInBackoffQ() {
		view.Pods[pod.UID] = cluster.BackingOff
	}
	for _, pod := range queue.PodsInActiveQ() {
		view.Pods[pod.UID] = cluster.Active
	}
	// From when it is taken out of the queue until there is a verdict, or a decision to
	// bind it; after that it is nowhere in the queue.
	for _, pod := range queue.InFlightPods() {
		view.Pods[pod.UID] = cluster.Trying
	}
	// Of these, some wait for other pods and not for a computation.
	for _, profile := range p.scheduler.Profiles {
		profile.IterateOverWaitingPods(func(waiting fwk.WaitingPod) { view.Pods[waiting.GetPod().UID] = cluster.Active })
	}
}

// Unseen returns a kind of which the running scheduler has not seen the latest change,
// empty if it is up to date and has dealt with what it saw. What a held watch keeps from
// it does not count.
func (s *Sandbox) Unseen(ctx context.Context) (string, error) {
	state, err := s.State(ctx)
	if err != nil {
		return "", err
	}
	kind := s.scheduler.behind(state, func(kind string) bool { return !s.holds.blinds("scheduler", kind) })
	for still := newStillness(); kind == "" && !still.look(); {
		time.Sleep(glance)
	}
	return kind, nil
}

// everything is what a scheduler sees that nobody hinders.
func everything(string) bool { return true }

// behind returns one of these kinds of which the running scheduler has not seen the
// state, "" if it is up to date.
func (p *schedulerPart) behind(state *cluster.State, of func(kind string) bool) (missing string) {
	p.While(func() { missing = p.unseen(state, of) })
	return missing
}

func (p *schedulerPart) unseen(state *cluster.State, of func(kind string) bool) string {
	informers := p.config.InformerFactory
	core, resource := informers.Core().V1(), informers.Resource().V1()
	for _, check := range []struct {
		kind     string
		informer cache.SharedIndexInformer
	}{
		{"nodes", core.Nodes().Informer()},
		{"pods", core.Pods().Informer()},
		{"resourceclaims", resource.ResourceClaims().Informer()},
		{"resourceslices", resource.ResourceSlices().Informer()},
		{"deviceclasses", resource.DeviceClasses().Informer()},
		{"devicetaintrules", resource.DeviceTaintRules().Informer()},
		{"podgroups", informers.Scheduling().V1beta1().PodGroups().Informer()},
	} {
		if !of(check.kind) {
			continue
		}
		if !check.informer.HasSynced() || !sameVersions(check.informer.GetStore(), state.Scheduled(check.kind)) {
			return check.kind
		}
	}
	return ""
}

// sameVersions reports whether the cache holds exactly these objects.
func sameVersions(store cache.Store, objects []metav1.Object) bool {
	if len(store.ListKeys()) != len(objects) {
		return false
	}
	for _, object := range objects {
		item, _, err := store.GetByKey(cache.MetaObjectToName(object).String())
		if err != nil {
			return false
		}
		cached, ok := item.(metav1.Object)
		if !ok || cached.GetResourceVersion() != object.GetResourceVersion() {
			return false
		}
	}
	return true
}
