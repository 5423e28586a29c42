// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// gatherTimeout ends the attempts to read a consistent state while claims keep
// changing, as in the DynamicResources plugin.
const gatherTimeout = 5 * time.Second

// Feed keeps an inventory up to date with a SharedDRAManager. It may be used by
// several goroutines.
type Feed struct {
	manager   fwk.SharedDRAManager
	conflicts *Conflicts
	promised  func() []inventory.DeviceID
	report    func(Conflict)

	mutex sync.Mutex
	inv   *inventory.Inventory
	taken taken

	latest atomic.Pointer[inventory.Snapshot]
}

// NewFeed returns a feed that has read nothing yet. Promised devices count as taken,
// whatever the manager knows of them. Devices that were given out
// twice stay taken until nobody holds them any more; they are reported once.
func NewFeed(manager fwk.SharedDRAManager, conflicts *Conflicts, promised func() []inventory.DeviceID, report func(Conflict)) *Feed {
	f := &Feed{manager: manager, conflicts: conflicts, promised: promised, report: report, inv: inventory.New()}
	f.latest.Store(f.inv.Snapshot())
	return f
}

// Snapshot returns the devices of all ResourceSlices, with the taints of
// DeviceTaintRules, and what claims hold of them: allocated claims and those
// whose allocation is about to be written.
func (f *Feed) Snapshot(ctx context.Context) (*inventory.Snapshot, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	state, err := f.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather allocated devices: %w", err)
	}
	slices, err := f.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	f.inv.SyncSlices(slices)
	for _, conflict := range f.conflicts.unreported() {
		f.report(conflict)
	}
	next := newTaken(state, append(f.conflicts.held(), f.promised()...))
	next.syncTo(f.inv, f.taken, f.conflicts.node)
	f.taken = next
	snapshot := f.inv.Snapshot()
	f.latest.Store(snapshot)
	return snapshot, nil
}

// Latest returns the snapshot that was taken last, without a look at what changed
// since.
func (f *Feed) Latest() *inventory.Snapshot { return f.latest.Load() }

// gather repeats reading while claims change in between. The manager does not
// export the error which asks for that, so it repeats after every error.
func (f *Feed) gather(ctx context.Context) (*schedulerapi.AllocatedState, error) {
	var state *schedulerapi.AllocatedState
	var lastErr error
	err := wait.PollUntilContextTimeout(ctx, time.Microsecond, gatherTimeout, true, func(context.Context) (bool, error) {
		state, lastErr = f.manager.ResourceClaims().GatherAllocatedState()
		return lastErr == nil, nil
	})
	switch {
	case err != nil:
		return nil, errors.Join(err, lastErr)
	case state == nil:
		return nil, errors.New("got no state")
	}
	return state, nil
}
