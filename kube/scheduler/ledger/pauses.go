// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Pauses keep pods away from what they tried in vain: a search that gave up, or a claim
// that the API server does not permit. Each is twice as long as the one before, so that
// what costs much costs it seldom. The framework's backoff ends at ten seconds.
type Pauses struct {
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
	pod          types.NamespacedName
	times        int
	began, until time.Time
	// timer is nil once the pause is over.
	timer clock.Timer
	// asks is what was asked for: the pause ends with another question.
	asks string
	// why is what the pod was told the last time.
	why error
}

// The shortest and the longest pause, and how long after one it is forgotten.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	PauseMemory  = 10 * time.Minute
	// HastenedTimes is how often a pod counts as refused when the reason may be over: its
	// pauses are short again, but not so short that many pods keep the API server busy.
	HastenedTimes = 3
	// StrainMemory is how long a namespace strains the scheduler after a search for one
	// of its pods gave up.
	StrainMemory = time.Minute
)

func newPauses(logger klog.Logger, pods corelisters.PodLister, activator fwk.PodActivator, clock clock.WithDelayedExecution) *Pauses {
	return &Pauses{logger: logger, pods: pods, activator: activator, clock: clock, byPod: map[types.UID]*pause{}, strains: map[string]time.Time{}}
}

// After begins a pause for the pod whose search gave up.
func (p *Pauses) After(pod *v1.Pod, asks, why string) {
	p.strain(pod.Namespace)
	p.Lengthen(pod, asks, errors.New(why))
}

// strain remembers that a search for a pod of the namespace gave up.
func (p *Pauses) strain(namespace string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.clock.Now()
	for other, until := range p.strains {
		if now.After(until) {
			delete(p.strains, other)
		}
	}
	p.strains[namespace] = now.Add(StrainMemory)
}

// Lengthen begins a pause for the pod: it has tried in vain once more.
func (p *Pauses) Lengthen(pod *v1.Pod, asks string, why error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.clock.Now()
	for uid, other := range p.byPod {
		if now.Sub(other.until) > PauseMemory {
			delete(p.byPod, uid)
		}
	}
	if p.closed {
		return
	}
	of := p.byPod[pod.UID]
	if of == nil {
		of = &pause{pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
		p.byPod[pod.UID] = of
	}
	p.stop(of) // the pod was tried before its time: something had changed
	of.times++
	of.began, of.asks, of.why = now, asks, why
	p.last(pod.UID, of, lengthOf(of.times))
}

// lengthOf is how long the pause is after so many attempts.
func lengthOf(times int) time.Duration {
	return min(firstPause<<min(times-1, 16), longestPause)
}

// last has the pause end after that time. The caller holds the mutex.
func (p *Pauses) last(pod types.UID, of *pause, length time.Duration) {
	key, until := of.pod, of.began.Add(length)
	of.until = until
	p.firing.Add(1)
	of.timer = p.clock.AfterFunc(max(0, until.Sub(p.clock.Now())), func() {
		defer p.firing.Done()
		if p.over(pod, until) {
			p.end(key, pod)
		}
	})
}

// Hasten shortens the pauses of a namespace's pods of which the reason may be over, and
// those that follow if it is not.
func (p *Pauses) Hasten(namespace string, over func(why error) bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for uid, of := range p.byPod {
		if of.pod.Namespace != namespace || of.timer == nil || !over(of.why) {
			continue
		}
		of.times = min(of.times, HastenedTimes)
		if length := lengthOf(of.times); of.began.Add(length).Before(of.until) {
			p.stop(of)
			p.last(uid, of, length)
		}
	}
}

// over reports whether the pause that lasts so long is the pod's last one. Its timer
// has fired.
func (p *Pauses) over(pod types.UID, until time.Time) bool {
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
func (p *Pauses) end(key types.NamespacedName, uid types.UID) {
	pod, err := p.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
		p.Forget(uid)
		return
	}
	p.activator.Activate(p.logger, map[string]*v1.Pod{key.String(): pod})
}

// Reason is what the pod was told before its pause, nil where it has none: the pause is
// over, or the pod asks for something else than before.
func (p *Pauses) Reason(pod types.UID, asks string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if of := p.lasting(pod, asks); of != nil {
		return of.why
	}
	return nil
}

// lasting returns the pause of the pod, nil where it has none. The caller holds the mutex.
func (p *Pauses) lasting(pod types.UID, asks string) *pause {
	of := p.byPod[pod]
	if of == nil || of.asks != asks || !p.clock.Now().Before(of.until) {
		return nil
	}
	return of
}

// Of says why no search is made for the pod now, empty where one may be.
func (p *Pauses) Of(pod types.UID, asks string) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	of := p.lasting(pod, asks)
	if of == nil {
		return ""
	}
	often := fmt.Sprintf("%d times", of.times)
	if of.times == 1 {
		often = "once"
	}
	return fmt.Sprintf("the search for devices gave up %s and is tried again at %s; the last time: %v", often, of.until.UTC().Format(time.RFC3339), of.why)
}

// Strained reports whether searches for pods of the namespace gave up lately. Others of
// its pods get less then, and find what is easy to find.
func (p *Pauses) Strained(namespace string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.clock.Now().Before(p.strains[namespace])
}

// Forget ends the pauses of a pod.
func (p *Pauses) Forget(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if of := p.byPod[pod]; of != nil {
		p.stop(of)
		delete(p.byPod, pod)
	}
}

// Count is for how many pods something is remembered.
func (p *Pauses) Count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.byPod)
}

// Times is how often the pod counts as having tried in vain, 0 where nothing is remembered.
func (p *Pauses) Times(pod types.UID) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if of := p.byPod[pod]; of != nil {
		return of.times
	}
	return 0
}

func (p *Pauses) stop(of *pause) {
	if of.timer != nil && of.timer.Stop() {
		p.firing.Done()
	}
	of.timer = nil
}

// Close stops the timers and waits for those that fire.
func (p *Pauses) Close() {
	p.mutex.Lock()
	p.closed = true
	for _, of := range p.byPod {
		p.stop(of)
	}
	clear(p.byPod)
	p.mutex.Unlock()
	p.firing.Wait()
}
