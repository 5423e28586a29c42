// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
)

// pauses keep pods away for which the search gave up: each time twice as long, so that
// pods that cost much cost it seldom. The framework's backoff ends at ten seconds.
type pauses struct {
	logger    klog.Logger
	pods      corelisters.PodLister
	activator fwk.PodActivator
	clock     clock.WithDelayedExecution

	mutex  sync.Mutex
	closed bool
	// firing counts the timers that fire.
	firing sync.WaitGroup
	byPod  map[types.UID]*pause
	// strains has the namespaces in which a search gave up lately, and until when that
	// counts.
	strains map[string]time.Time
}

type pause struct {
	times int
	until time.Time
	timer clock.Timer
	// asks is what was asked for: the pause ends with another question.
	asks string
	// why is the reason of the search that gave up.
	why string
}

// The shortest and the longest pause, and how long after one it is forgotten.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	pauseMemory  = 10 * time.Minute
	// strainMemory is how long a namespace strains the scheduler after a search for one
	// of its pods gave up.
	strainMemory = time.Minute
)

func newPauses(logger klog.Logger, pods corelisters.PodLister, activator fwk.PodActivator) *pauses {
	return &pauses{logger: logger, pods: pods, activator: activator, clock: clock.RealClock{}, byPod: map[types.UID]*pause{}, strains: map[string]time.Time{}}
}

// after begins a pause for the pod if the search gave up in the attempt.
func (p *pauses) after(pod *v1.Pod, a *attempt) {
	if why := a.purses.attempt.gaveUp.Load(); why != nil {
		p.lengthen(pod, a.question, *why)
	}
}

// lengthen begins a pause for the pod: the search has given up once more.
func (p *pauses) lengthen(pod *v1.Pod, asks, why string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.clock.Now()
	for uid, other := range p.byPod {
		if now.Sub(other.until) > pauseMemory {
			delete(p.byPod, uid)
		}
	}
	for namespace, until := range p.strains {
		if now.After(until) {
			delete(p.strains, namespace)
		}
	}
	if p.closed {
		return
	}
	p.strains[pod.Namespace] = now.Add(strainMemory)
	of := p.byPod[pod.UID]
	if of == nil {
		of = &pause{}
		p.byPod[pod.UID] = of
	}
	p.stop(of) // the pod was tried before its time: something had changed
	length := min(firstPause<<min(of.times, 16), longestPause)
	of.times++
	of.until, of.asks, of.why = now.Add(length), asks, why
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	p.firing.Add(1)
	until := of.until
	of.timer = p.clock.AfterFunc(length, func() {
		defer p.firing.Done()
		if p.over(pod.UID, until) {
			p.end(key, pod.UID)
		}
	})
}

// over reports whether the pause that lasts so long is the pod's last one. Its timer
// has fired.
func (p *pauses) over(pod types.UID, until time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	of := p.byPod[pod]
	if of == nil || !of.until.Equal(until) {
		return false
	}
	of.timer = nil
	return true
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

// of says why the pod is not tried now, empty where it may be: its pause is over, or it
// asks for something else than before.
func (p *pauses) of(pod types.UID, asks string) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	of := p.byPod[pod]
	if of == nil || of.asks != asks || !p.clock.Now().Before(of.until) {
		return ""
	}
	times := fmt.Sprintf("%d times", of.times)
	if of.times == 1 {
		times = "once"
	}
	return fmt.Sprintf("the search for devices gave up %s and is tried again at %s; the last time: %s", times, of.until.UTC().Format(time.RFC3339), of.why)
}

// strained reports whether searches for pods of the namespace gave up lately. Others of
// its pods get less then, and find what is easy to find.
func (p *pauses) strained(namespace string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.clock.Now().Before(p.strains[namespace])
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
	of.timer = nil
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

// question tells what the search for a pod is about: its claims, whether they have
// devices, and the classes that they name. Another answer may come where it changes.
func (pl *Plugin) question(pod *v1.Pod) string {
	wanted, allocated, ok := pl.waiting(pod)
	if !ok {
		return ""
	}
	var text strings.Builder
	for _, pc := range allocated {
		fmt.Fprintf(&text, "has %s;", pc.claim.UID)
	}
	for _, pc := range wanted {
		fmt.Fprintf(&text, "wants %s;", pc.claim.UID)
		for ask := range claim.Asks(&pc.claim.Spec.Devices) {
			if class, err := pl.manager.DeviceClasses().Get(ask.DeviceClassName); err == nil {
				fmt.Fprintf(&text, "%s/%s/%d;", class.Name, class.UID, class.Generation)
			}
		}
	}
	return text.String()
}
