// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crash kills each part of a cluster with a fabric at each point of the way
// that a device takes to a claim and back, and looks at what comes of the device, the
// claim and the pod.
package crash

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/sandbox"
)

// strike is a part and whether it is killed or cut off.
type strike struct {
	name, title string
	part        string
	// cut says that it is cut off for a while, and not killed.
	cut bool
}

// cutFor is how long a connection is cut: long enough for a retry to fail.
const cutFor = time.Second

var strikes = []strike{
	{name: "scheduler", title: "scheduler killed", part: "scheduler"},
	{name: "controller", title: "controller killed", part: "controller"},
	{name: "service", title: "Redfish service killed", part: "redfish"},
	{name: "scheduler-cut", title: "scheduler cut off", part: "scheduler", cut: true},
	{name: "controller-cut", title: "controller cut off", part: "controller", cut: true},
}

// TestPoints checks that no phase was forgotten.
func TestPoints(t *testing.T) {
	covered := map[fabric.Phase]bool{}
	names := map[string]bool{}
	for _, p := range points() {
		if names[p.name] {
			t.Errorf("point %s: twice", p.name)
		}
		covered[p.phase], names[p.name] = true, true
	}
	for _, info := range fabric.Phases() {
		if !covered[info.Phase] {
			t.Errorf("phase %s: nothing is killed in it; add a point", info.Phase)
		}
	}
}

// TestMatrix has a device of its own stand at each point, ends one part, lets all go
// on without it, has it back, and looks at the end of each. Then the next part.
func TestMatrix(t *testing.T) {
	w := newWorld(t)
	table := newTable(w.points)
	for _, c := range strikes {
		whole := true
		ok := t.Run(c.name, func(t *testing.T) {
			w.t, whole = t, false
			w.column(&c, table)
			whole = true
		})
		if !ok {
			w.logTail(t)
		}
		if !whole {
			return // What is held would be held in the next column, too.
		}
	}
	table.check(t)
}

// column runs one part's column of the matrix.
func (w *world) column(c *strike, table *table) {
	began := time.Now()
	lap := func(what string) {
		w.t.Logf("%s after %s", what, time.Since(began).Round(100*time.Millisecond))
	}
	w.faults()
	holds := w.advance()
	lap("there")
	w.assertHeld("before the part is ended")
	w.strike(c, holds)
	lap("struck")
	settlement := w.settle()
	lap("settled")
	w.checkBooks(settlement.State)
	for i := range w.points {
		p := &w.points[i]
		w.t.Run(p.name, func(t *testing.T) {
			got, want := w.outcome(t, p), p.wantOf(c)
			if want == again && (got == bound || got == bound+twice) {
				got = again
			}
			if got != want {
				t.Errorf("it ended %q, want %q: %s", got, want, w.describe(p))
			}
			table.set(p.name, c.title, got)
		})
	}
	w.tidyUp()
	lap("tidied up")
	w.complain(w.t)
}

// wantOf is the end that a point is to have when a part was struck.
func (p *point) wantOf(c *strike) string {
	if c.part == "scheduler" && c.cut && p.survives != "" {
		return p.survives
	}
	return p.want
}

// faults tells the service what it is to do wrong.
func (w *world) faults() {
	w.Rack().Redfish().ClearFaults()
	for _, p := range w.points {
		if p.fault == nil {
			continue
		}
		fault := *p.fault
		fault.Host = p.name
		if err := w.Rack().Redfish().AddFault(fault); err != nil {
			w.t.Fatal(err)
		}
	}
}

// advance brings every point about and returns what is held back there. Who waits for
// an answer does not do so for ever: these come last.
func (w *world) advance() map[string]*sandbox.Held {
	holds := map[string]*sandbox.Held{}
	for _, turn := range []func(*point) bool{
		func(p *point) bool { return !p.wait },
		func(p *point) bool { return p.atWork },
		func(p *point) bool { return p.wait && !p.atWork },
	} {
		var begun []*point
		for i := range w.points {
			p := &w.points[i]
			if !turn(p) {
				continue
			}
			if p.hold.Part != "" {
				var err error
				if holds[p.name], err = w.Holds().Add(p.held()); err != nil {
					w.t.Fatal(err)
				}
			}
			w.create(p)
			begun = append(begun, p)
		}
		for _, p := range begun {
			if p.leaving {
				w.until(p.name+": the pod runs", func() bool { return w.runs(p) && slices.Contains(w.phases(p.name), fabric.PhaseSettled) })
				w.remove(p)
			}
		}
		for _, p := range begun {
			w.untilThere(p, holds[p.name])
		}
	}
	return holds
}

// untilThere waits until a point is reached.
func (w *world) untilThere(p *point, h *sandbox.Held) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Log(w.describe(p))
		}
	}()
	w.until(p.name+": the point", func() bool {
		if h == nil {
			return w.runs(p)
		}
		return h.Reached()
	})
	if !p.atWork {
		w.until(fmt.Sprintf("%s: phase %s", p.name, p.phase), func() bool { return w.inPhase(p) })
	}
}

// inPhase tells whether the point's phase is that of its attachment.
func (w *world) inPhase(p *point) bool {
	phases := w.phases(p.name)
	if p.phase == fabric.PhaseNone {
		return len(phases) == 0
	}
	return slices.Contains(phases, p.phase)
}

// strike ends a part, lets everything go on, and has the part back.
func (w *world) strike(c *strike, holds map[string]*sandbox.Held) {
	w.t.Helper()
	for name, h := range holds {
		w.until(name+": the write", h.Reached)
	}
	for i := range w.points {
		if p := &w.points[i]; p.atWork {
			holds[p.name].Release(sandbox.GoOn)
		}
	}
	for i := range w.points {
		if p := &w.points[i]; p.atWork {
			w.until(fmt.Sprintf("%s: phase %s", p.name, p.phase), func() bool { return w.inPhase(p) })
		}
	}
	if err := w.end(c); err != nil {
		w.t.Fatal(err)
	}
	w.assertHeld("when the part had ended")
	for _, h := range holds {
		// What the part itself was about to write when it was ended never comes.
		h.Release(sandbox.GoOn)
	}
	if err := w.bringBack(c); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) end(c *strike) error {
	if c.cut {
		return w.Parts().Cut(c.part)
	}
	return w.Parts().Kill(c.part, "")
}

func (w *world) bringBack(c *strike) error {
	if !c.cut {
		return w.Parts().Start(w.t.Context(), c.part, "")
	}
	over := time.Now().Add(cutFor)
	w.until("the end of the cut", func() bool { return time.Now().After(over) })
	return w.Parts().Reconnect(c.part)
}

// assertHeld checks that everything still is where it is to be. Points at work are
// not held.
func (w *world) assertHeld(when string) {
	w.t.Helper()
	for i := range w.points {
		if p := &w.points[i]; !p.atWork && !w.inPhase(p) {
			w.t.Errorf("%s: %s the attachment is %v, want it to be held in phase %s", p.name, when, w.phases(p.name), p.phase)
		}
	}
}

// settle waits until nothing moves.
func (w *world) settle() *sandbox.Settlement {
	w.t.Helper()
	for began := time.Now(); ; {
		settlement, err := w.Settle(w.t.Context(), slow)
		late := (*sandbox.NotSettledError)(nil)
		switch {
		case errors.As(err, &late) && time.Since(began) < limit:
			w.t.Logf("slow: %v", err)
			continue
		case err != nil:
			w.t.Fatal(err)
		case len(settlement.Stuck) > 0:
			w.t.Errorf("stuck: %v", settlement.Stuck)
		}
		return settlement
	}
}

// logTail shows the end of the components' log.
func (w *world) logTail(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(w.LogFile())
	if err != nil {
		t.Error(err)
		return
	}
	t.Logf("components' log:\n%s", data[max(0, len(data)-20000):])
}
