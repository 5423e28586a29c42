// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var worlds = flag.Uint64("worlds", 6, "worlds to run for each policy")

// TestWorld has planners run worlds with faults, restarts and impatient users, and
// looks after every step. When the faults stop, all must end well.
func TestWorld(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   Policy
		identity bool
		template bool
		// seeds are those of further worlds, which told of a mistake.
		seeds []uint64
	}{
		{"Reallocate", Policy{HandOver: Reallocate, Guards: Guards{Rules: true}}, true, false, []uint64{131}},
		{"Reallocate without guards", Policy{HandOver: Reallocate}, true, false, []uint64{7}},
		{"Reservation", Policy{HandOver: Reallocate, Guards: Guards{Reservation: true}}, true, false, []uint64{29}},
		{"Taint", Policy{HandOver: Reschedule, Guards: Guards{Taint: true}}, true, true, nil},
		{"all guards", Policy{HandOver: Reallocate, Guards: Guards{true, true, true}}, true, false, nil},
		{"all guards, templates without identity", Policy{HandOver: Reallocate, Guards: Guards{true, true, true}}, false, true, nil},
		{"Reschedule", Policy{HandOver: Reschedule, Guards: Guards{Rules: true}}, true, false, nil},
		{"Resolve", Policy{HandOver: Resolve, Guards: Guards{Rules: true}}, true, false, nil},
		{"templates", Policy{HandOver: Reallocate, Guards: Guards{Rules: true}}, true, true, []uint64{163}},
		{"templates without identity", Policy{HandOver: Reallocate, Guards: Guards{Rules: true}}, false, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			settled, withheld := 0, 0
			for i := range *worlds + uint64(len(tc.seeds)) {
				seed := i
				if i >= *worlds {
					seed = tc.seeds[i-*worlds]
				}
				policy := tc.policy
				policy.Fabric, policy.Models = "f", []Model{{Name: "a", Driver: simDriver, Template: tc.template, Attributes: map[string]string{"model": "A"}}}
				policy.AttachTimeout, policy.IdleDetachAfter, policy.OrphanGrace = 5*time.Minute, time.Minute, time.Minute
				policy.Limits = Limits{Concurrent: 1 + int(seed%3), PerMachine: 1 + int(seed%2)}
				w := newWorld(t, seed, policy, tc.identity)
				settled += w.run()
				withheld += len(w.withheld)
			}
			if settled == 0 || withheld == 0 {
				t.Errorf("%d claims settled, %d devices were withheld", settled, withheld)
			}
		})
	}
}

// run returns the number of attachments that settled.
func (w *world) run() int {
	for range 400 {
		w.step()
		if w.rng.IntN(60) == 0 {
			w.restart()
		}
	}
	w.manager.faults = false
	w.repairNodes()
	settled := 0
	// Longer than all deadlines together, at the end without new work.
	for i := range 600 {
		if i == 300 {
			w.pace, w.calm = 2, true
		}
		w.step()
		if w.rng.IntN(200) == 0 {
			w.restart()
		}
	}
	for row, n := range w.taken {
		if row.To == PhaseSettled {
			settled += n
		}
	}
	w.ended()
	return settled
}

// ended checks that every device is with its claim or free, and every claim has
// devices or waits.
func (w *world) ended() {
	for ref, d := range w.manager.devices {
		if d.Machine == "" {
			continue
		}
		users := w.users(ref)
		onNode := false
		for _, m := range w.nodes {
			onNode = onNode || m == d.Machine
		}
		if len(users) == 0 && !w.mayBeUsed(d) || !onNode {
			w.fail("%s is left at %s, for nobody (%v)\nattachments: %s", ref, d.Machine, users, w.show())
		}
	}
	for _, a := range w.attachments {
		switch a.Status.Phase {
		case PhaseSettled, PhaseRetained:
			// Retained with a user, as checked above.
		case PhaseFailed:
			// A pod runs on with a claim on a device that was lost, and was told.
			c := w.claims[a.Spec.Claim.UID]
			told := c != nil && slices.ContainsFunc(c.Devices, func(d ClaimDevice) bool {
				return d.Failed && (d.LocalDevice == a.Spec.Offer || d.LocalDevice == *a.Status.Target)
			})
			if !told || a.Status.Reason != ReasonDeviceLost {
				w.fail("attachment %s ends as Failed\nattachments: %s", a.Name, w.show())
			}
		default:
			w.fail("attachment %s ends as %s\nattachments: %s", a.Name, a.Status.Phase, w.show())
		}
	}
	for uid, c := range w.claims {
		for _, d := range c.Devices {
			if d.Pool == PoolName(w.policy.Fabric) && !c.Reserved {
				w.fail("claim %s waits for ever for %v, failed %v\nattachments: %s", uid, d.LocalDevice, d.Failed, w.show())
			}
		}
	}
}

// mayBeUsed tells whether nobody can say which device a claim on the node uses.
func (w *world) mayBeUsed(d *Device) bool {
	for _, a := range w.attachments {
		if d.UUID == "" && a.Spec.Device == d.Ref && a.Spec.Claim == nil {
			return true
		}
	}
	for _, c := range w.claims {
		if d.UUID == "" && c.Node != "" && w.nodes[c.Node] == d.Machine {
			return true
		}
	}
	return false
}

func (w *world) show() string {
	s := ""
	for _, a := range w.attachments {
		s += fmt.Sprintf("\n  %s: %+v\n    %+v in use: target %v", a.Name, a.Spec, a.Status, a.Status.Target)
	}
	for uid, c := range w.claims {
		s += fmt.Sprintf("\n  claim %s: %+v", uid, *c)
	}
	return s
}
