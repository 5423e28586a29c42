// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package description

import (
	"fmt"
	"slices"
	"strings"
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

// Check finds what is wrong with a fault of a service that has these blocks and hosts,
// by their IDs. Errors name the field.
func (f *Fault) Check(hasBlock, hasHost func(id string) bool) error {
	if !slices.Contains(faultKinds, f.Kind) {
		return fmt.Errorf("fault: kind is %q, want one of %s", f.Kind, list(faultKinds))
	}
	if f.Operation != "" && !slices.Contains(operations, f.Operation) {
		return fmt.Errorf("fault %s: operation is %q, want one of %s", f.Kind, f.Operation, list(operations))
	}
	if f.Block != "" && !hasBlock(f.Block) {
		return fmt.Errorf("fault %s: there is no block %q", f.Kind, f.Block)
	}
	for field, id := range map[string]string{"host": f.Host, "to": f.To} {
		if id != "" && !hasHost(id) {
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
