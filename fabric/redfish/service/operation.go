// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

// tasksKept is how many tasks are remembered.
const tasksKept = 1000

// operation is an attach or a detach that is going on or has ended.
type operation struct {
	id      string // of its task; empty where the client waits for the end
	kind    description.Operation
	host    *description.Host
	blocks  []*block
	faults  faults
	begun   time.Time
	ended   time.Time
	done    chan struct{} // closed at the end
	failure *refusal      // set at the end where it failed
}

// tasks are the operations that are going on, and the tasks by which clients ask for them. What was begun works on the
// shelf when its time has come.
type tasks struct {
	config *description.Config
	clock  Clock
	after  func(description.Duration, func())
	shelf  *shelf
	script *script
	stats  *Stats

	running map[*operation]bool
	kept    map[string]*operation // tasks that are remembered
	last    int                   // number of the last task
}

// begin starts to attach blocks to a host or to detach them, if nothing speaks against it. It changes all blocks or
// none.
func (t *tasks) begin(kind description.Operation, h *description.Host, blocks []*block) (*operation, *refusal) {
	o := &operation{kind: kind, host: h, blocks: blocks, begun: t.clock.Now(), done: make(chan struct{})}
	for _, b := range blocks {
		o.faults = append(o.faults, t.script.struck(call{operation: kind, block: b.ID, host: h.ID})...)
	}
	if r := o.faults.refusal(); r != nil {
		return nil, r
	}
	for _, b := range blocks {
		if r := o.objection(b); r != nil {
			return nil, r
		}
	}
	if r := t.full(h); r != nil {
		return nil, r
	}
	for _, b := range blocks {
		b.work = o
	}
	t.running[o] = true
	t.stats.Operations++
	t.stats.MaxOperations = max(t.stats.MaxOperations, len(t.running))
	t.stats.MaxPerHost = max(t.stats.MaxPerHost, t.runningOn(h))
	if t.config.Tasks {
		t.last++
		o.id = strconv.Itoa(t.last)
		t.kept[o.id] = o
		delete(t.kept, strconv.Itoa(t.last-tasksKept))
	}
	if o.faults.has(description.FaultForgetsTask) {
		delete(t.kept, o.id)
	}
	latency := t.config.Latency.Attach
	if kind == description.OperationDetach {
		latency = t.config.Latency.Detach
	}
	t.after(latency, func() { t.finish(o) })
	return o, nil
}

// objection says why a block cannot take part in an operation, or nil.
func (o *operation) objection(b *block) *refusal {
	conflict := func(format string, args ...any) *refusal {
		return &refusal{status: http.StatusConflict, message: fmt.Sprintf("resource block %s "+format, append([]any{b.ID}, args...)...)}
	}
	switch {
	case b.work != nil:
		return conflict("is being composed or decomposed")
	case o.kind == description.OperationDetach && b.host != o.host.ID:
		return conflict("is not composed to system %s", o.host.ID)
	case o.kind == description.OperationDetach:
		return nil
	case b.host != "":
		return conflict("is already composed to system %s", b.host)
	case b.broken:
		return conflict("is in bad health")
	case !description.Overlap(b.Zones, o.host.Zones):
		return conflict("is in no zone of system %s", o.host.ID)
	}
	return nil
}

// full is the refusal where the limits do not permit another operation on a host.
func (t *tasks) full(h *description.Host) *refusal {
	limits, message := t.config.Limits, ""
	switch {
	case limits.Concurrent > 0 && len(t.running) >= limits.Concurrent:
		message = fmt.Sprintf("%d operations are going on, which is the limit", limits.Concurrent)
	case limits.PerHost > 0 && t.runningOn(h) >= limits.PerHost:
		message = fmt.Sprintf("%d operations are going on at system %s, which is the limit", limits.PerHost, h.ID)
	default:
		return nil
	}
	return &refusal{status: http.StatusServiceUnavailable, message: message, retryAfter: time.Duration(limits.RetryAfter)}
}

func (t *tasks) runningOn(h *description.Host) int {
	n := 0
	for o := range t.running {
		if o.host == h {
			n++
		}
	}
	return n
}

// finish does the work of an operation, and what faults make of it. The caller reports the change.
func (t *tasks) finish(o *operation) {
	delete(t.running, o)
	for _, b := range o.blocks {
		b.work = nil
	}
	if f, ok := o.faults.get(description.FaultFails); ok {
		o.failure = &refusal{status: cmp.Or(f.Status, http.StatusInternalServerError), message: "the operation failed without effect"}
	} else {
		for _, b := range o.blocks {
			if o.kind == description.OperationAttach {
				t.attach(o, b)
			} else {
				b.compose("")
				t.shelf.see(b, "")
			}
		}
	}
	o.ended = t.clock.Now()
	close(o.done)
}

func (t *tasks) attach(o *operation, b *block) {
	target := o.host.ID
	if f, ok := o.faults.get(description.FaultWrongHost); ok {
		target = f.To
	}
	b.compose(target)
	if o.faults.has(description.FaultNeverAppears) {
		b.hidden = true
		return
	}
	attachment := b.attachment
	still := func() bool { return b.attachment == attachment && !b.broken && !b.hidden }
	t.after(t.config.Latency.Appear, func() {
		if !still() {
			return
		}
		t.shelf.see(b, target)
		if f, ok := o.faults.get(description.FaultVanishes); ok {
			t.after(f.After, func() {
				if still() {
					t.shelf.vanish(b)
				}
			})
		}
	})
}
