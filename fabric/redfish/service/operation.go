// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
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

// begin starts to attach blocks to a host or to detach them, if nothing speaks against it. It changes all blocks or
// none. The caller holds the lock.
func (s *Service) begin(kind description.Operation, h *description.Host, blocks []*block) (*operation, *refusal) {
	o := &operation{kind: kind, host: h, blocks: blocks, begun: s.clock.Now(), done: make(chan struct{})}
	for _, b := range blocks {
		o.faults = append(o.faults, s.struck(call{operation: kind, block: b.ID, host: h.ID})...)
	}
	if o.faults.has(description.FaultLostRequest) {
		return nil, &refusal{dropped: true}
	}
	if r := o.faults.refusal(s.retryAfter()); r != nil {
		return nil, r
	}
	for _, b := range blocks {
		if r := o.objection(b); r != nil {
			return nil, r
		}
	}
	if r := s.full(h); r != nil {
		return nil, r
	}
	for _, b := range blocks {
		b.work = o
	}
	s.running[o] = true
	s.count(h)
	if s.config.Tasks {
		s.taskID++
		o.id = strconv.Itoa(s.taskID)
		s.tasks[o.id] = o
		delete(s.tasks, strconv.Itoa(s.taskID-tasksKept))
	}
	if o.faults.has(description.FaultForgetsTask) {
		delete(s.tasks, o.id)
	}
	latency := s.config.Latency.Attach
	if kind == description.OperationDetach {
		latency = s.config.Latency.Detach
	}
	s.after(latency, func() { s.finish(o) })
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
func (s *Service) full(h *description.Host) *refusal {
	limits, message := s.config.Limits, ""
	switch {
	case limits.Concurrent > 0 && len(s.running) >= limits.Concurrent:
		message = fmt.Sprintf("%d operations are going on, which is the limit", limits.Concurrent)
	case limits.PerHost > 0 && s.runningOn(h) >= limits.PerHost:
		message = fmt.Sprintf("%d operations are going on at system %s, which is the limit", limits.PerHost, h.ID)
	default:
		return nil
	}
	return &refusal{status: http.StatusServiceUnavailable, message: message, retryAfter: s.retryAfter()}
}

func (s *Service) retryAfter() time.Duration {
	if d := time.Duration(s.config.Limits.RetryAfter); d > 0 {
		return d
	}
	return time.Second
}

func (s *Service) runningOn(h *description.Host) int {
	n := 0
	for o := range s.running {
		if o.host == h {
			n++
		}
	}
	return n
}

func (s *Service) count(h *description.Host) {
	s.stats.Operations++
	s.stats.MaxOperations = max(s.stats.MaxOperations, len(s.running))
	s.stats.MaxPerHost = max(s.stats.MaxPerHost, s.runningOn(h))
}

// finish does the work of an operation, and what faults make of it. The caller holds the lock and reports the change.
func (s *Service) finish(o *operation) {
	delete(s.running, o)
	for _, b := range o.blocks {
		b.work = nil
	}
	if f, ok := o.faults.get(description.FaultFails); ok {
		o.failure = &refusal{status: http.StatusInternalServerError, message: "the operation failed without effect"}
		if f.Status != 0 {
			o.failure.status = f.Status
		}
	} else {
		for _, b := range o.blocks {
			if o.kind == description.OperationAttach {
				s.attach(o, b)
			} else {
				s.compose(b, "")
				s.see(b, "")
			}
		}
	}
	o.ended = s.clock.Now()
	close(o.done)
}

func (s *Service) attach(o *operation, b *block) {
	target := o.host.ID
	if f, ok := o.faults.get(description.FaultWrongHost); ok {
		target = f.To
	}
	s.compose(b, target)
	if o.faults.has(description.FaultNeverAppears) {
		b.hidden = true
		return
	}
	attachment := b.attachment
	still := func() bool { return b.attachment == attachment && !b.broken && !b.hidden }
	s.after(s.config.Latency.Appear, func() {
		if !still() {
			return
		}
		s.see(b, target)
		if f, ok := o.faults.get(description.FaultVanishes); ok {
			s.after(f.After, func() {
				if still() {
					s.vanish(b)
				}
			})
		}
	})
}
