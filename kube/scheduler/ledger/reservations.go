// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// Reservations knows the devices that were chosen and of which the API does not know
// yet: from Reserve until the allocation is written or given up. A DeviceTaintRule that
// selects one of them is acknowledged when that has ended. Which rules there are is
// looked up under the same lock, so a reservation is either seen by who acknowledges a
// rule, or has seen the rule itself.
type Reservations struct {
	mutex sync.Mutex
	held  map[Holder]Reserved
	// waiting are the rules that cannot be acknowledged yet, and who wants to.
	waiting map[waiter]*resourceapi.DeviceTaintRule
	// underWay are the pods that they are made for, and further on until these are bound.
	underWay *UnderWay
	// plugins counts who uses them.
	plugins int
}

// Holder is who holds devices for a claim: a pod, or nobody where what the claim has is
// exchanged for other devices.
type Holder struct{ Claim, Pod types.UID }

// Reserved are the devices that are held; yield is called for each rule that selects one
// of them, nil where nothing can be done then.
type Reserved struct {
	Devices []inventory.DeviceID
	Yield   func()
}

// ruleQueue has rules looked at again.
type ruleQueue interface{ Add(rule string) }

type waiter struct {
	queue ruleQueue
	rule  string
}

// ofManagers has the reservations of all profiles of a scheduler: they give out the same
// devices, and each acknowledges rules.
var ofManagers = struct {
	mutex sync.Mutex
	of    map[fwk.SharedDRAManager]*Reservations
}{of: map[fwk.SharedDRAManager]*Reservations{}}

// ReservationsOf returns the reservations that all profiles with this manager share. Each calls Leave
// in the end.
func ReservationsOf(manager fwk.SharedDRAManager) *Reservations {
	ofManagers.mutex.Lock()
	defer ofManagers.mutex.Unlock()
	r := ofManagers.of[manager]
	if r == nil {
		r = &Reservations{held: map[Holder]Reserved{}, waiting: map[waiter]*resourceapi.DeviceTaintRule{}, underWay: newUnderWay()}
		ofManagers.of[manager] = r
	}
	r.plugins++
	return r
}

// Leave is called once by each plugin that has got the reservations.
func (r *Reservations) Leave(manager fwk.SharedDRAManager) {
	ofManagers.mutex.Lock()
	defer ofManagers.mutex.Unlock()
	if r.plugins--; r.plugins == 0 {
		delete(ofManagers.of, manager)
	}
}

// hold notes what is reserved.
func (r *Reservations) hold(h Holder, devices []inventory.DeviceID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.held[h] = Reserved{Devices: devices}
}

// HoldUnless does so if there is no objection to any of it, which it returns.
func (r *Reservations) HoldUnless(objection func() error, chosen map[Holder]Reserved) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := objection(); err != nil {
		return err
	}
	maps.Copy(r.held, chosen)
	return nil
}

// Release ends a reservation, and has the rules looked at that waited for it.
func (r *Reservations) Release(h Holder) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	devices := r.held[h].Devices
	delete(r.held, h)
	for w, rule := range r.waiting {
		if selectsAny(rule, devices) {
			delete(r.waiting, w)
			w.queue.Add(w.rule)
		}
	}
}

// Against reports whether devices are reserved that the rule selects. Then the worker
// gets the name of the rule again when that has changed, and who has reserved them is
// asked to yield: a pod may wait for others of its gang for a long time.
func (r *Reservations) Against(rule *resourceapi.DeviceTaintRule, again ruleQueue) bool {
	found, yields := r.wait(rule, again)
	for _, yield := range yields {
		yield()
	}
	return found
}

func (r *Reservations) wait(rule *resourceapi.DeviceTaintRule, again ruleQueue) (found bool, yields []func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, of := range r.held {
		if !selectsAny(rule, of.Devices) {
			continue
		}
		found = true
		if of.Yield != nil {
			yields = append(yields, of.Yield)
		}
	}
	if found {
		r.waiting[waiter{again, rule.Name}] = rule
	}
	return found, yields
}

func selectsAny(rule *resourceapi.DeviceTaintRule, devices []inventory.DeviceID) bool {
	return slices.ContainsFunc(devices, func(id inventory.DeviceID) bool { return inventory.Selects(rule, id) })
}
