// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"strings"
)

// doomText says for people why the claim does not get the device in time.
func (s *situation) doomText() string {
	switch s.doom() {
	case ReasonNodeGone:
		return fmt.Sprintf("node %s is gone, or is not machine %s of the fabric any more", s.Spec.Node, s.Spec.Machine)
	case ReasonClaimFailed:
		return "a failure condition of the claim's device " + s.Spec.Offer.Device + " is true"
	}
	over := fmt.Sprintf("the time allowed (%s) is over", s.p.policy.AttachTimeout)
	switch {
	case s.phase() == PhaseAttached:
		return over + ": " + s.unseen()
	case s.waits() && !s.shielded():
		return over + " while waiting for the guard: " + s.unacknowledged()
	case s.Status.Message != "":
		return over + " while waiting for the fabric's manager: " + s.Status.Message
	default:
		return over + " while waiting for the fabric's manager"
	}
}

// unacknowledged names the guards that are waited for.
func (s *situation) unacknowledged() string {
	var waits []string
	if !s.guarded() {
		waits = append(waits, fmt.Sprintf("no scheduler has seen the DeviceTaintRule for driver %s on node %s", s.p.driver(s.entry), s.Spec.Node))
	}
	if s.Spec.Tainted && !s.NodeGuarded {
		waits = append(waits, fmt.Sprintf("node %s has not set the condition NodeGuarded of the attachment", s.Spec.Node))
	}
	if len(waits) == 0 {
		waits = append(waits, "the fabric's slices do not show yet for whom the device is reserved")
	}
	return strings.Join(waits, ", and ")
}

// unseen says what the node does not show.
func (s *situation) unseen() string {
	node, driver := cmp.Or(s.p.nodeAt(s.entry), s.Spec.Node), s.p.driver(s.entry)
	at := fmt.Sprintf("%s is at %s, but driver %s", s.Spec.Device, node, driver)
	identity := s.Spec.Identity
	if identity == nil {
		identity = s.p.policy.published(s.dev)
	}
	switch {
	case s.phase() == PhaseAttached && s.arrival().difference != "":
		return s.unlikeText()
	case s.target() != nil:
		return at + " has shown it too late"
	case identity == nil:
		return at + " publishes no new device there that can be it: check spec.models[].attributes and the driver"
	default:
		return fmt.Sprintf("%s publishes no device there with %s=%s: check spec.identity and the driver", at, identity.Attribute, identity.Value)
	}
}
