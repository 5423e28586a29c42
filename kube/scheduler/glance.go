// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// A glance answers whether devices could be of use for claims where that has to be
// quick: queueing hints run for every waiting pod and hold the lock of the queue. What
// cannot be told at a glance may be of use: the pod is tried then, within the limits of
// an attempt.
type glance struct {
	hints *hints
	ctx   context.Context
	left  int
}

const (
	// glanceTime bounds what a glance spends on CEL, glanceLooks all else: devices
	// and draws that it looks at.
	glanceTime  = 2 * time.Millisecond
	glanceLooks = 5_000
)

// glance begins one; end has to be called.
func (h *hints) glance() (g *glance, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), h.dear.limit)
	return &glance{hints: h, ctx: ctx, left: glanceLooks}, cancel
}

// over takes looks and reports whether there are none left.
func (g *glance) over(looks int) bool {
	g.left -= looks
	return g.left < 0
}

// anyWants reports whether some request of the claims could use the device.
func (g *glance) anyWants(claims []*podclaim.Claim, device *inventory.Device) bool {
	for _, pc := range claims {
		for ask := range claim.Asks(&pc.Claim.Spec.Devices) {
			if g.matches(ask, device) {
				return true
			}
		}
	}
	return false
}

// matches reports whether the selectors of the class and of the request may match
// the device. Nothing matches an unknown class, and no failing selector matches.
func (g *glance) matches(ask claim.Ask, device *inventory.Device) bool {
	class, err := g.hints.manager.DeviceClasses().Get(ask.DeviceClassName)
	if err != nil {
		return false
	}
	return g.selects(class.Spec.Selectors, device) && g.selects(ask.Selectors, device)
}

func (g *glance) selects(selectors []resourceapi.DeviceSelector, device *inventory.Device) bool {
	for _, s := range selectors {
		switch {
		case s.CEL == nil:
			return false
		case g.over(1) || g.ctx.Err() != nil || g.hints.dear.has(s.CEL.Expression):
			return true
		}
		began := time.Now()
		ok, _, err := g.hints.matcher.Match(g.ctx, s.CEL.Expression, device)
		g.hints.dear.note(s.CEL.Expression, time.Since(began))
		if g.ctx.Err() != nil {
			return true
		}
		if err != nil || !ok {
			return false
		}
	}
	return true
}
