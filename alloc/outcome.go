// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Outcome is the answer of [Problem.Allocate]. Exactly one of Result, Refusal
// and GaveUp is set.
type Outcome struct {
	// Result: the claims fit.
	Result *Result
	// Refusal: they cannot.
	Refusal *Refusal
	// GaveUp: the budget ended before either was known.
	GaveUp *GaveUp
	// Steps is the number of devices that were tried.
	Steps int
	// Work is all effort, in units of some ten nanoseconds. It does not depend on
	// what was remembered from other attempts.
	Work int64
}

// Result is an allocation for every claim.
type Result struct {
	// Claims has one allocation per claim, in the order of the claims. They
	// are ready to be written to ResourceClaim.status, but for the
	// allocationTimestamp: the package has no clock.
	Claims []resourceapi.AllocationResult
	// Devices are the chosen devices of all claims, in the order of the
	// results of Claims.
	Devices [][]*inventory.Device
	// Cost says how good the choice is. Costs of different nodes compare.
	Cost Cost
}

// GaveUp says that the budget was used up.
type GaveUp struct {
	// Budget is Options.StepBudget.
	Budget int
	// Spent is what the effort went into, the most first.
	Spent []Spent
	// Stopped is set where Options.Stop ended the attempt, not the budget.
	Stopped bool
	// Before is set by whoever asks on many nodes and had nothing left for this one:
	// the search was not begun.
	Before bool
}

// Spent is how much work went into something.
type Spent struct {
	On   Expense
	Work int64
}

// Refusal says why the claims cannot be allocated on a node.
type Refusal struct {
	// Requests has the funnel of each request, of each alternative for
	// prioritized lists, in the order of the claims.
	Requests []RequestReport
	// Untold is the number of requests and alternatives without a report: the budget
	// for explanations ended before their turn.
	Untold int
	// Conflict is a minimal reason: the requests it names cannot be satisfied
	// together, leaving out any one of them they can.
	Conflict Conflict
	// Pools that the node reaches but that offer nothing, with the reason in
	// Pool.Problem.
	Pools []*inventory.Pool
}

// Stage is a step of the funnel that devices pass on their way to a request.
type Stage int8

// The stages, in order. A device counts as left after a stage if it passed
// that stage and all before it.
const (
	// StageDevices: the device is in a usable pool that the node reaches.
	StageDevices Stage = iota
	// StageClass: the selectors of the device class match.
	StageClass
	// StageSelector: the selectors of the request match.
	StageSelector
	// StageFree: no other claim holds the device.
	StageFree
	// StageTaints: the request tolerates the device's taints, and the node
	// supports the node operations that the device skips.
	StageTaints
	// StageCounters: the counters hold what the device consumes.
	StageCounters
	// StageCapacity: the device has the capacity that the request asks for.
	StageCapacity
	// StageNode: the node has what the device takes of its resources.
	StageNode
	// StageConstraints: the constraints of the claim can be met with the
	// device. It is the last stage.
	StageConstraints

	// Stages is the number of stages.
	Stages = int(StageConstraints) + 1
	// NoStage stands for a request that could be satisfied on its own.
	NoStage Stage = -1
)

// RequestRef names a request, or an alternative of one, of a claim.
type RequestRef struct {
	// Claim is namespace/name.
	Claim string
	// Request is the name, "request/subrequest" for alternatives.
	Request string
}

// RequestReport is the funnel of one request on one node.
type RequestReport struct {
	RequestRef
	// Wants is the number of devices asked for; with All, of those that match.
	Wants int
	All   bool
	// Left is the number of devices after each stage.
	Left [Stages]int
	// Failed is the first stage after which fewer than Wants are left, or
	// NoStage.
	Failed Stage
	// Unselected are the devices of the class that the request's own selectors do not
	// match, in listed order, and Unmet what keeps them away, as far as that is known.
	// Both are empty where enough devices match.
	Unselected []*inventory.Device
	Unmet      []Unmet
	// Candidates are the devices left before StageConstraints, in listed order.
	Candidates []*inventory.Device
	// Dropped are the devices that fell out at the stages from StageFree to
	// StageNode; those are the stages that can change.
	Dropped map[Stage][]*inventory.Device
	// Shortages say for those dropped at StageNode what the node lacks.
	Shortages map[*inventory.Device]Shortage
	// SelectorErrors are run-time errors of selectors, one per expression with a
	// device it failed on: the first of a driver that the expression names, where
	// there is one, else the first.
	SelectorErrors []SelectorError
	// DerivedErrors are derived attributes that constraints are on and that
	// cannot be worked out for candidates.
	DerivedErrors []DerivedError
}

// SelectorError is a selector that failed on a device.
type SelectorError struct {
	// Claim is namespace/name of the claim that the device was tried for; Class
	// the device class whose selector it is, empty for the claim's own.
	Claim, Class string
	// Index is the position of the selector in its list.
	Index      int
	Expression string
	Device     inventory.DeviceID
	// Devices counts the devices on which the expression failed.
	Devices int
	Err     error
}

// Error names the object, the selector and the device.
func (e *SelectorError) Error() string {
	object := "claim " + e.Claim
	if e.Class != "" {
		object = "device class " + e.Class
	}
	return fmt.Sprintf("%s: selector #%d on device %s: %v", object, e.Index, e.Device, e.Err)
}

// Unwrap returns the error of the evaluation.
func (e *SelectorError) Unwrap() error { return e.Err }

// ConflictKind says what kind of reason a Conflict is.
type ConflictKind string

const (
	// TooFew: the one request has fewer candidates than it wants; its report
	// names the stage.
	TooFew ConflictKind = "TooFew"
	// TooMany: the requests ask for more than a claim may have (Limit).
	TooMany ConflictKind = "TooMany"
	// AllUnavailable: a request for all devices matches Devices, which cannot
	// be had.
	AllUnavailable ConflictKind = "AllUnavailable"
	// AllUnknown: a request for all devices, while Pool is not usable.
	AllUnknown ConflictKind = "AllUnknown"
	// NoMatch: no value of Attribute is shared by enough devices. Groups says
	// how many each value has; none in common leaves Groups of more than one
	// request without a value that all have.
	NoMatch ConflictKind = "NoMatch"
	// TooFewGroups: Need groups of requests must each share a value of
	// Attribute, which Have of them can.
	TooFewGroups ConflictKind = "TooFewGroups"
	// NotDistinct: Need devices must differ in Attribute, Have can.
	NotDistinct ConflictKind = "NotDistinct"
	// Counters: together the requests need more of the counters than is free.
	Counters ConflictKind = "Counters"
	// NodeResource: together the requests take more of a resource of the node
	// than is left (Shortage).
	NodeResource ConflictKind = "NodeResource"
	// Shared: the requests compete for the same devices, Need for Have.
	Shared ConflictKind = "Shared"
	// Exhausted: every combination was tried.
	Exhausted ConflictKind = "Exhausted"
)

// Conflict is a set of requests that cannot be satisfied together. Which fields
// are set depends on the kind.
type Conflict struct {
	Kind     ConflictKind
	Requests []RequestRef
	// Attribute is the attribute of the constraint at fault.
	Attribute resourceapi.FullyQualifiedName
	// Groups are the values of the attribute among the candidates, the value
	// with most devices first.
	Groups []ValueGroup
	// Need and Have count devices.
	Need, Have int
	// Shortage of NodeResource; Needs is the least that the requests can take.
	Shortage Shortage
	// Limit of TooMany.
	Limit int
	// Pool and Devices at fault.
	Pool    *inventory.Pool
	Devices []*inventory.Device
}

// Shortage is a resource of the node of which devices take more than is left.
type Shortage struct {
	Resource    v1.ResourceName
	Needs, Left inventory.Amount
}

// ValueGroup is how many candidates of each request have one attribute value.
type ValueGroup struct {
	// Value as text: strings as they are, versions without build metadata.
	Value string
	// Type is "int", "bool", "string" or "version". Values of different types are
	// never equal.
	Type string
	// Counts and Devices have one entry for each of Conflict.Requests that the
	// constraint applies to, in their order.
	Counts  []int
	Devices [][]*inventory.Device
}

// Cost ranks results. With best fit less is better, of Kept more, and the first
// field that differs decides; see [Strategy.Compare] for others.
type Cost struct {
	// Rank is the sum of the positions of the chosen alternatives in their
	// prioritized lists.
	Rank int
	// Kept counts devices that were attached for the claims that get them
	// (inventory.ClaimTaint): more is better, with all strategies.
	Kept int
	// Binding counts devices with binding conditions.
	Binding int
	// Size is the sum of the sizes of the devices, in millionths of the
	// largest of their kind on the node.
	Size int64
	// Lost is the sum of the squared sizes of the placements that were possible
	// before and are not after: a large one is worth more than small ones of
	// the same size together, for it is harder to come by.
	Lost int64
	// Fresh counts the counter sets that were unused before.
	Fresh int
	// Open counts what was unused, devices without counters and counter sets,
	// in the pools of which some of that was taken. So nodes fill up one after
	// the other, and whole ones stay for those who want all their devices.
	Open int
}

// Compare returns -1, 0 or +1: which of two costs best fit prefers.
func (c Cost) Compare(o Cost) int { return BestFit.Compare(c, o) }

// Compare returns -1, 0 or +1: which of two costs, also of different nodes, the
// strategy prefers. Better alternatives and devices that are ready come first with
// all of them; Listed asks for nothing more.
func (s Strategy) Compare(a, b Cost) int {
	first := cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.Kept, a.Kept), cmp.Compare(a.Binding, b.Binding))
	switch s {
	case Listed:
		return first
	case Spread:
		return cmp.Or(first, cmp.Compare(a.Size, b.Size), cmp.Compare(b.Fresh, a.Fresh), cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Open, a.Open))
	}
	return cmp.Or(first, cmp.Compare(a.Size, b.Size), cmp.Compare(a.Lost, b.Lost), cmp.Compare(a.Fresh, b.Fresh), cmp.Compare(a.Open, b.Open))
}
