// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. Those of attach and detach take effect on the work, not only on the reply.
const (
	// FaultBusy answers 503 with Retry-After; nothing is done.
	FaultBusy FaultKind = "busy"
	// FaultRefused answers 409, or Status; nothing is done.
	FaultRefused FaultKind = "refused"
	// FaultLostRequest drops the connection; nothing is done.
	FaultLostRequest FaultKind = "lostRequest"
	// FaultLostReply drops the connection after the work was done, or was begun where the service has tasks.
	FaultLostReply FaultKind = "lostReply"
	// FaultFails lets the work end without effect, with 500 or, where the service has tasks, a failed task.
	FaultFails FaultKind = "fails"
	// FaultWrongHost attaches the device to the host To.
	FaultWrongHost FaultKind = "wrongHost"
	// FaultNeverAppears attaches the device for the manager; no host sees it.
	FaultNeverAppears FaultKind = "neverAppears"
	// FaultVanishes takes the device off the bus of its host, After it appeared. It stays composed and is unhealthy.
	FaultVanishes FaultKind = "vanishes"
	// FaultForgetsTask loses the task: its monitor is unknown at once, the work goes on.
	FaultForgetsTask FaultKind = "forgetsTask"
)

var faultKinds = []FaultKind{
	FaultBusy, FaultRefused, FaultLostRequest, FaultLostReply, FaultFails, FaultWrongHost, FaultNeverAppears,
	FaultVanishes, FaultForgetsTask,
}

// Operation is what a client asks of the service, as faults and statistics tell them apart.
type Operation string

// The operations.
const (
	OperationAttach  Operation = "attach"
	OperationDetach  Operation = "detach"
	OperationReserve Operation = "reserve" // Reserved = true
	OperationRelease Operation = "release" // Reserved = false
	OperationRead    Operation = "read"    // any GET but that of a task monitor
	OperationPoll    Operation = "poll"    // GET of a task monitor
	OperationLogin   Operation = "login"
)

var operations = []Operation{
	OperationAttach, OperationDetach, OperationReserve, OperationRelease, OperationRead, OperationPoll, OperationLogin,
}

// Fault goes wrong with the matching calls, from the Nth on, Times times.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Operation, Block and Host say which calls match. Without an Operation, these are attach and detach, or attach for
	// a kind that only makes sense there. Without a Block or a Host, any. They are IDs; reads and logins have none.
	Operation Operation `json:"operation,omitempty"`
	Block     string    `json:"block,omitempty"`
	Host      string    `json:"host,omitempty"`
	// Nth is the first matching call that fails, counted from when the fault was added; 0: the first.
	Nth int `json:"nth,omitempty"`
	// Times is how many matching calls fail; 0: one; -1: all.
	Times int `json:"times,omitempty"`
	// Status replaces the status code of busy, refused and fails.
	Status int `json:"status,omitempty"`
	// RetryAfter of busy; 0: that of the limits; NoRetryAfter: none at all.
	RetryAfter Duration `json:"retryAfter,omitempty"`
	// To is the host that wrongHost attaches to.
	To string `json:"to,omitempty"`
	// After is how long a device that vanishes is there.
	After Duration `json:"after,omitempty"`
}

// NoRetryAfter leaves the header out.
const NoRetryAfter = Duration(-1)

func (s *Service) checkFault(f Fault) error {
	if !slices.Contains(faultKinds, f.Kind) {
		return fmt.Errorf("fault: kind is %q, want one of %s", f.Kind, list(faultKinds))
	}
	if f.Operation != "" && !slices.Contains(operations, f.Operation) {
		return fmt.Errorf("fault %s: operation is %q, want one of %s", f.Kind, f.Operation, list(operations))
	}
	if f.Block != "" && s.blocks[f.Block] == nil {
		return fmt.Errorf("fault %s: there is no block %q", f.Kind, f.Block)
	}
	for field, id := range map[string]string{"host": f.Host, "to": f.To} {
		if id != "" && s.hosts[id] == nil {
			return fmt.Errorf("fault %s: %s: there is no host %q", f.Kind, field, id)
		}
	}
	switch {
	case f.Kind == FaultWrongHost && f.To == "":
		return fmt.Errorf("fault %s: to is missing, the host that the device goes to", f.Kind)
	case f.Nth < 0 || f.Times < -1:
		return fmt.Errorf("fault %s: nth is %d and times is %d, want 0 or more, or times -1 for all", f.Kind, f.Nth, f.Times)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("fault %s: status is %d, want 400 to 599", f.Kind, f.Status)
	}
	return nil
}

func list[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// scripted is a fault and what has happened to it.
type scripted struct {
	Fault
	matched int
}

// call is what a fault is matched with.
type call struct {
	operation   Operation
	block, host string
}

func (f *scripted) matches(c call) bool {
	return (f.Operation == c.operation || f.Operation == "" && f.Kind.strikes(c.operation)) &&
		(f.Block == "" || f.Block == c.block) && (f.Host == "" || f.Host == c.host)
}

// strikes tells which operations a kind of fault is for, unless the fault says it.
func (k FaultKind) strikes(o Operation) bool {
	switch k {
	case FaultWrongHost, FaultNeverAppears, FaultVanishes:
		return o == OperationAttach
	default:
		return o == OperationAttach || o == OperationDetach
	}
}

// struck counts the call at all faults that match it, and returns those whose turn it is.
func (s *Service) struck(c call) faults {
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
			now = append(now, f.Fault)
		}
	}
	return now
}

// faults are those of one call.
type faults []Fault

func (fs faults) get(kind FaultKind) (Fault, bool) {
	i := slices.IndexFunc(fs, func(f Fault) bool { return f.Kind == kind })
	if i < 0 {
		return Fault{}, false
	}
	return fs[i], true
}

func (fs faults) has(kind FaultKind) bool {
	_, ok := fs.get(kind)
	return ok
}

// refusal is the answer where a fault keeps the call from being served, or nil.
func (fs faults) refusal(retryAfter time.Duration) *refusal {
	if f, ok := fs.get(FaultBusy); ok {
		r := &refusal{status: http.StatusServiceUnavailable, message: "the service is busy", retryAfter: retryAfter}
		if f.RetryAfter != 0 {
			r.retryAfter = time.Duration(max(f.RetryAfter, 0))
		}
		if f.Status != 0 {
			r.status = f.Status
		}
		return r
	}
	if f, ok := fs.get(FaultRefused); ok {
		r := &refusal{status: http.StatusConflict, message: "refused by the script of faults"}
		if f.Status != 0 {
			r.status = f.Status
		}
		return r
	}
	return nil
}

// AddFault scripts another fault. Errors name the field.
func (s *Service) AddFault(f Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFault(f); err != nil {
		return err
	}
	s.faults = append(s.faults, &scripted{Fault: f})
	return nil
}

// Faults lists the script.
func (s *Service) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Fault, len(s.faults))
	for i, f := range s.faults {
		all[i] = f.Fault
	}
	return all
}

// ClearFaults ends the script. What has been struck stays as it is.
func (s *Service) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}
