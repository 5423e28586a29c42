// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// mending lists the slices as the framework's tracker has them, but for those that it
// has left behind when it panicked (see trackerpanic.go): they get the taints of the
// rules that there are, until the tracker has looked at them again. What it does after a
// panic is right, so all slices are compared once for each panic, and then only those
// that were wrong. It is used by one goroutine at a time.
type mending struct {
	tracker fwk.ResourceSliceLister
	seen    resourcelisters.ResourceSliceLister
	rules   *ruleWatch
	// panics is how many have been dealt with.
	panics int64
	// behind are the slices that the tracker has left behind, by name.
	behind map[string]*leftBehind
}

// leftBehind is a slice as the tracker has it, and as it should be.
type leftBehind struct{ tracked, mended *resourceapi.ResourceSlice }

// mendedManager is a manager with its slices mended.
type mendedManager struct {
	fwk.SharedDRAManager
	mending *mending
}

// ResourceSlices implements fwk.SharedDRAManager.
func (m mendedManager) ResourceSlices() fwk.ResourceSliceLister { return m.mending }

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (m *mending) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	panics := survived.count.Load() // before the list: one that comes later is seen the next time
	all, err := m.tracker.ListWithDeviceTaintRules()
	if err != nil || panics == m.panics && len(m.behind) == 0 {
		return all, err
	}
	all = slices.Clone(all)
	behind := map[string]*leftBehind{}
	for i, slice := range all {
		last := m.behind[slice.Name]
		if panics == m.panics && (last == nil || last.tracked != slice) {
			continue // the tracker has looked at it since
		}
		mended, err := m.mend(slice)
		if err != nil {
			return nil, err
		}
		if mended == slice {
			continue
		}
		if last == nil || last.tracked != slice || !sameTaints(last.mended, mended) {
			last = &leftBehind{slice, mended}
		}
		behind[slice.Name], all[i] = last, last.mended
	}
	m.panics, m.behind = panics, behind
	return all, nil
}

// mend returns the slice with the taints that it should have: itself, if it has them.
// One that has changed will be looked at by the tracker anyway.
func (m *mending) mend(tracked *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	seen, err := m.seen.Get(tracked.Name)
	if apierrors.IsNotFound(err) {
		return tracked, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ResourceSlice %s: %w", tracked.Name, err)
	}
	rules, err := m.rules.of(tracked.Spec.Driver)
	if err != nil {
		return nil, err
	}
	if seen.UID != tracked.UID || seen.ResourceVersion != tracked.ResourceVersion || seen == tracked && len(rules) == 0 {
		return tracked, nil
	}
	mended := seen.DeepCopy()
	for i := range mended.Spec.Devices {
		device := &mended.Spec.Devices[i]
		id := inventory.DeviceID{Driver: seen.Spec.Driver, Pool: seen.Spec.Pool.Name, Device: device.Name}
		for _, rule := range rules {
			if inventory.Selects(rule, id) {
				device.Taints = append(device.Taints, rule.Spec.Taint)
			}
		}
	}
	if sameTaints(mended, tracked) {
		return tracked, nil
	}
	return mended, nil
}

// sameTaints compares the taints of two versions of a slice, in whatever order.
func sameTaints(a, b *resourceapi.ResourceSlice) bool {
	return slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(a, b resourceapi.Device) bool {
		if len(a.Taints) != len(b.Taints) {
			return false
		}
		rest := slices.Clone(b.Taints)
		for i := range a.Taints {
			at := slices.IndexFunc(rest, func(t resourceapi.DeviceTaint) bool { return sameTaint(&a.Taints[i], &t) })
			if at < 0 {
				return false
			}
			rest = slices.Delete(rest, at, at+1)
		}
		return true
	})
}

func sameTaint(a, b *resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}
