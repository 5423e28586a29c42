// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

// scripted is a fault and what has happened to it.
type scripted struct {
	description.Fault
	matched int
}

// call is what a fault is matched with.
type call struct {
	operation   description.Operation
	block, host string
}

func (f *scripted) matches(c call) bool {
	return (f.Operation == c.operation || f.Operation == "" && strikes(f.Kind, c.operation)) &&
		(f.Block == "" || f.Block == c.block) && (f.Host == "" || f.Host == c.host)
}

// strikes tells which operations a kind of fault is for, unless the fault says it.
func strikes(k description.FaultKind, o description.Operation) bool {
	switch k {
	case description.FaultWrongHost, description.FaultNeverAppears, description.FaultVanishes:
		return o == description.OperationAttach
	default:
		return o == description.OperationAttach || o == description.OperationDetach
	}
}

// script is the script of faults.
type script struct {
	faults []*scripted
	// retryAfter is what a client is told to wait where the fault says nothing.
	retryAfter description.Duration
}

// add scripts another fault. Errors name the field.
func (s *script) add(f description.Fault, on *shelf) error {
	err := f.Check(func(id string) bool { return on.blocks[id] != nil }, func(id string) bool { return on.hosts[id] != nil })
	if err == nil {
		s.faults = append(s.faults, &scripted{Fault: f})
	}
	return err
}

// struck counts the call at all faults that match it, and returns those whose turn it is.
func (s *script) struck(c call) faults {
	var now faults
	for _, f := range s.faults {
		if !f.matches(c) {
			continue
		}
		f.matched++
		first, times := max(f.Nth, 1), f.Times
		if times == 0 {
			times = 1
		}
		if f.matched >= first && (times < 0 || f.matched < first+times) {
			struck := f.Fault
			struck.RetryAfter = cmp.Or(struck.RetryAfter, s.retryAfter)
			now = append(now, struck)
		}
	}
	return now
}

// faults are those of one call.
type faults []description.Fault

func (fs faults) get(kind description.FaultKind) (description.Fault, bool) {
	i := slices.IndexFunc(fs, func(f description.Fault) bool { return f.Kind == kind })
	if i < 0 {
		return description.Fault{}, false
	}
	return fs[i], true
}

func (fs faults) has(kind description.FaultKind) bool {
	_, ok := fs.get(kind)
	return ok
}

// refusal is the answer where a fault keeps the call from being served, or nil.
func (fs faults) refusal() *refusal {
	if fs.has(description.FaultLostRequest) {
		return &refusal{dropped: true}
	}
	if f, ok := fs.get(description.FaultBusy); ok {
		return &refusal{
			status: cmp.Or(f.Status, http.StatusServiceUnavailable), message: "the service is busy",
			retryAfter: time.Duration(max(f.RetryAfter, 0)),
		}
	}
	if f, ok := fs.get(description.FaultRefused); ok {
		return &refusal{status: cmp.Or(f.Status, http.StatusConflict), message: "refused by the script of faults"}
	}
	return nil
}

// refusalToTell is the same for a call that changes nothing: to lose the reply is then to lose the request.
func (fs faults) refusalToTell() *refusal {
	if fs.has(description.FaultLostReply) {
		return &refusal{dropped: true}
	}
	return fs.refusal()
}

// AddFault scripts another fault. Errors name the field.
func (s *Service) AddFault(f description.Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.script.add(f, s.shelf)
}

// Faults lists the script.
func (s *Service) Faults() []description.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]description.Fault, len(s.script.faults))
	for i, f := range s.script.faults {
		all[i] = f.Fault
	}
	return all
}

// ClearFaults ends the script. What has been struck stays as it is.
func (s *Service) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script.faults = nil
}
