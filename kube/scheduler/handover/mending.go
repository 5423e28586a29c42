// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
)

// mending lists the slices as the framework's tracker has them, but for those that have
// not got the taints of the DeviceTaintRules that there are: they are mended. The tracker
// leaves slices behind when it panics (see scheduler.SurviveTrackerPanics), and when it handles changes
// of a slice and of a rule at once, the older of the two last. A slice is compared when
// the tracker has another version of it, or a rule has changed that may select its
// devices; then, if it was wrong, until it is right. List is called by one goroutine at a
// time.
type mending struct {
	tracker fwk.ResourceSliceLister
	seen    resourcelisters.ResourceSliceLister
	rules   *Rules
	// listed has the slices as they were listed last, by name.
	listed map[string]listedSlice

	mutex sync.Mutex
	// changed are selectors of rules that have changed since.
	changed []resourceapi.DeviceTaintSelector
}

// listedSlice is a slice as the tracker has it, and as it should be.
type listedSlice struct{ tracked, mended *resourceapi.ResourceSlice }

func (l listedSlice) behind() bool { return l.tracked != l.mended }

func newMending(tracker fwk.ResourceSliceLister, seen resourcelisters.ResourceSliceLister, rules *Rules) *mending {
	return &mending{tracker: tracker, seen: seen, rules: rules, listed: map[string]listedSlice{}}
}

// Mend returns a manager whose slices are mended.
func (w *Rules) Mend(manager fwk.SharedDRAManager) fwk.SharedDRAManager {
	return mendedManager{manager, w.mending}
}

// mendedManager is a manager with its slices mended.
type mendedManager struct {
	fwk.SharedDRAManager
	mending *mending
}

// ResourceSlices implements fwk.SharedDRAManager.
func (m mendedManager) ResourceSlices() fwk.ResourceSliceLister { return m.mending }

// maxChanged bounds what is remembered while nobody lists slices; more than that is
// everything.
const maxChanged = 1000

// ruleChanged is told of each rule that comes or goes, as before and after a change.
func (m *mending) ruleChanged(obj any) {
	rule, ok := informer.Object[*resourceapi.DeviceTaintRule](obj)
	if !ok || rule.Spec.DeviceSelector == nil {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.changed) >= maxChanged {
		m.changed = []resourceapi.DeviceTaintSelector{{}}
	}
	// Of the device nothing is asked.
	m.changed = append(m.changed, resourceapi.DeviceTaintSelector{Driver: rule.Spec.DeviceSelector.Driver, Pool: rule.Spec.DeviceSelector.Pool})
}

func (m *mending) takeChanged() []resourceapi.DeviceTaintSelector {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	changed := m.changed
	m.changed = nil
	return changed
}

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (m *mending) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	changed := m.takeChanged() // before the list: what comes later is looked at the next time
	tracked, err := m.tracker.ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(tracked)
	for i, slice := range tracked {
		last, known := m.listed[slice.Name]
		if !known || last.tracked != slice || last.behind() || touches(changed, slice) {
			if last, err = m.mend(slice, last); err != nil {
				m.listed = map[string]listedSlice{} // all are compared the next time
				return nil, err
			}
			m.listed[slice.Name] = last
		}
		all[i] = last.mended
	}
	if len(m.listed) > len(all) {
		m.forget(all)
	}
	return all, nil
}

// forget drops slices that are gone.
func (m *mending) forget(all []*resourceapi.ResourceSlice) {
	kept := make(map[string]listedSlice, len(all))
	for _, slice := range all {
		kept[slice.Name] = m.listed[slice.Name]
	}
	m.listed = kept
}

func touches(changed []resourceapi.DeviceTaintSelector, slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(changed, func(s resourceapi.DeviceTaintSelector) bool {
		return (s.Driver == nil || *s.Driver == slice.Spec.Driver) && (s.Pool == nil || *s.Pool == slice.Spec.Pool.Name)
	})
}

// mend finds out how a slice should be. What was made of it before stays if it is right.
// One of which the tracker has not got the newest version will be looked at by it.
func (m *mending) mend(tracked *resourceapi.ResourceSlice, last listedSlice) (listedSlice, error) {
	right := listedSlice{tracked, tracked}
	seen, err := m.seen.Get(tracked.Name)
	if apierrors.IsNotFound(err) {
		return right, nil
	}
	if err != nil {
		return right, fmt.Errorf("get ResourceSlice %s: %w", tracked.Name, err)
	}
	rules, err := m.rules.of(tracked.Spec.Driver)
	if err != nil {
		return right, err
	}
	if seen.UID != tracked.UID || seen.ResourceVersion != tracked.ResourceVersion || seen == tracked && len(rules) == 0 {
		return right, nil
	}
	mended := withTaints(seen, rules)
	switch {
	case sameTaints(mended, tracked):
		return right, nil
	case last.behind() && last.tracked == tracked && sameTaints(mended, last.mended):
		return last, nil
	}
	return listedSlice{tracked, mended}, nil
}

// withTaints returns a slice with the taints that rules add.
func withTaints(slice *resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) *resourceapi.ResourceSlice {
	tainted := slice.DeepCopy()
	for i := range tainted.Spec.Devices {
		device := &tainted.Spec.Devices[i]
		id := inventory.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name}
		for _, rule := range rules {
			if inventory.Selects(rule, id) {
				device.Taints = append(device.Taints, rule.Spec.Taint)
			}
		}
	}
	return tainted
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
