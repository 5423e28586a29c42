// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// trackerFunction is where the framework's tracker of ResourceSlices panics
// (k8s.io/dynamic-resource-allocation v0.37.2, resourceslice/tracker): a change of a
// DeviceTaintRule is handled while a change of a slice is known and not handled yet,
// and the slice has got more devices. That is what happens when a device arrives that
// a rule guards.
const trackerFunction = "resourceslice/tracker.(*Tracker).syncSlice("

// SurviveTrackerPanics has the process go on after that panic, and after no other. It
// changes how the whole process deals with panics (utilruntime.ReallyCrash), so it is for
// the program to call, before it starts a scheduler; a program that does not ends with the
// panic, as kube-scheduler does. It is needed until the tracker is mended.
//
// The change of the rule is lost for the slice, and is made up for at once: the change of
// the slice comes next, and with it all rules that there are. So an arriving device never
// comes without its taints. Other slices that the rule selects keep the taints that they
// had until something about them changes; until then the plugin mends them, see
// package handover.
var SurviveTrackerPanics = sync.OnceFunc(func() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, endUnlessTracker)
	utilruntime.ReallyCrash = false // endUnlessTracker does that
})

func endUnlessTracker(ctx context.Context, reason any) {
	if !isTrackerPanic(string(debug.Stack())) {
		panic(reason)
	}
	klog.FromContext(ctx).Error(nil, "the tracker of ResourceSlices panicked over a DeviceTaintRule and goes on", "reason", reason)
	survived.tell()
}

// survived tells of the panics of the tracker to those who have to do something about it.
var survived = &panics{told: map[*Plugin]func(){}}

type panics struct {
	count atomic.Int64

	mutex sync.Mutex
	told  map[*Plugin]func()
}

func (p *panics) tell() {
	p.count.Add(1)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, hear := range p.told {
		hear()
	}
}

// watch has a plugin told until ignore.
func (p *panics) watch(pl *Plugin, hear func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.told[pl] = hear
}

func (p *panics) ignore(pl *Plugin) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.told, pl)
}

// afterPanic brings back the pods of the profile that wait for a node: the tracker tells
// nothing of the slices that it has left behind.
func (pl *Plugin) afterPanic() {
	logger := pl.logger
	pods, err := pl.ledger.Users.Lister.List(labels.Everything())
	if err != nil {
		logger.Error(err, "cannot bring back pods that wait for devices")
		return
	}
	waiting := map[string]*v1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName == pl.handle.ProfileName() && pl.lookup.usesDevices(pod) {
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(waiting) > 0 {
		pl.handle.Activate(logger, waiting)
	}
}

// isTrackerPanic looks at the functions between the panic and the start of the
// goroutine.
func isTrackerPanic(stack string) bool {
	_, since, _ := strings.Cut(stack, "panic(")
	return strings.Contains(since, trackerFunction)
}
