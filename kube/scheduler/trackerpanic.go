// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// trackerFunction is where the framework's tracker of ResourceSlices panics
// (k8s.io/dynamic-resource-allocation v0.37.2, resourceslice/tracker): a change of a
// DeviceTaintRule is handled while a change of a slice is known and not handled yet,
// and the slice has got more devices. That is what happens when a device arrives that
// a rule guards.
const trackerFunction = "resourceslice/tracker.(*Tracker).syncSlice("

// surviveTracker has the scheduler go on after that panic. The change of the rule is
// lost for the slice, and is made up for at once: the change of the slice comes next,
// and with it all rules that there are. So an arriving device never comes without its
// taints. Other slices of the same pool may keep the taints that they had until
// something about them changes. All other panics end the process, as ever.
var surviveTracker = sync.OnceFunc(func() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, endUnlessTracker)
	utilruntime.ReallyCrash = false // endUnlessTracker does that
})

func endUnlessTracker(ctx context.Context, reason any) {
	if !isTrackerPanic(string(debug.Stack())) {
		panic(reason)
	}
	klog.FromContext(ctx).Error(nil, "the tracker of ResourceSlices panicked over a DeviceTaintRule and goes on", "reason", reason)
}

// isTrackerPanic looks at the functions between the panic and the start of the
// goroutine.
func isTrackerPanic(stack string) bool {
	_, since, _ := strings.Cut(stack, "panic(")
	return strings.Contains(since, trackerFunction)
}
