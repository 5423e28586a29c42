// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// pauses keep pods away for which the search gave up: each time twice as long, so that
// pods that cost much cost it seldom. The framework's backoff ends at ten seconds.
type pauses struct {
	logger    klog.Logger
	pods      corelisters.PodLister
	activator fwk.PodActivator

	mutex  sync.Mutex
	closed bool
	// firing counts the timers that fire.
	firing sync.WaitGroup
	byPod  map[types.UID]*pause
}

type pause struct {
	times int
	until time.Time
	timer *time.Timer
}

// The shortest and the longest pause, and how long after one it is forgotten.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	pauseMemory  = 10 * time.Minute
)

func newPauses(logger klog.Logger, pods corelisters.PodLister, activator fwk.PodActivator) *pauses {
	return &pauses{logger: logger, pods: pods, activator: activator, byPod: map[types.UID]*pause{}}
}

// lengthen begins a pause for the pod: the search has given up once more.
func (p *pauses) lengthen(pod *v1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	for uid, other := range p.byPod {
		if now.Sub(other.until) > pauseMemory {
			delete(p.byPod, uid)
		}
	}
	if p.closed {
		return
	}
	of := p.byPod[pod.UID]
	if of == nil {
		of = &pause{}
		p.byPod[pod.UID] = of
	} else if now.Before(of.until) {
		return // it has one
	}
	length := min(firstPause<<min(of.times, 16), longestPause)
	of.times++
	of.until = now.Add(length)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	p.firing.Add(1)
	of.timer = time.AfterFunc(length, func() {
		defer p.firing.Done()
		p.end(key, pod.UID)
	})
}

// end brings the pod back.
func (p *pauses) end(key types.NamespacedName, uid types.UID) {
	pod, err := p.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
		p.forget(uid)
		return
	}
	p.activator.Activate(p.logger, map[string]*v1.Pod{key.String(): pod})
}

// of says why the pod is not tried now, empty where it may be.
func (p *pauses) of(pod types.UID) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	of := p.byPod[pod]
	if of == nil || !time.Now().Before(of.until) {
		return ""
	}
	times := fmt.Sprintf("%d times", of.times)
	if of.times == 1 {
		times = "once"
	}
	return fmt.Sprintf("the search for devices gave up %s and is tried again at %s", times, of.until.UTC().Format(time.RFC3339))
}

// forget ends the pauses of a pod.
func (p *pauses) forget(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if of := p.byPod[pod]; of != nil {
		p.stop(of)
		delete(p.byPod, pod)
	}
}

func (p *pauses) stop(of *pause) {
	if of.timer != nil && of.timer.Stop() {
		p.firing.Done()
	}
}

// Close stops the timers and waits for those that fire.
func (p *pauses) Close() {
	p.mutex.Lock()
	p.closed = true
	for _, of := range p.byPod {
		p.stop(of)
	}
	clear(p.byPod)
	p.mutex.Unlock()
	p.firing.Wait()
}
