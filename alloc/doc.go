// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alloc decides which devices satisfy the claims of a pod on a node, or
// why none do. It is the core of kerf.
//
// [Compile] turns claims into a [Problem]; [Problem.Allocate] solves it on one
// node's inventory.View. All claims are solved together, all or nothing. There
// are three outcomes, and only three: a [Result], a [Refusal], or [GaveUp].
// Errors are for bad input alone (an [InputError] names object and field).
//
// # Contract
//
//   - Deterministic: the same claims on the same view give the same outcome,
//     whatever the order of slices, maps or goroutines.
//   - A Refusal is a proof: no assignment exists. GaveUp says that the budget
//     ended first, and on what it was spent, and is never reported as impossible.
//   - A name of an attribute or capacity without a domain is in the driver's domain,
//     whether a slice, a class or a claim has it: see inventory.LocalName. A result uses
//     the names that the device publishes.
//   - The input is never changed. A Problem may be used by several goroutines.
//   - [Check] verifies a result against the rules of the API. It shares no code
//     with the search.
//   - Effort is counted, not timed; the package has no clock. Devices that are tried
//     are steps. All other work whose amount depends on the input is paid for in
//     units: CEL by its cost, bounds, ranking, explanations, memory. One budget,
//     Options.StepBudget, bounds both. Work does not depend on what was remembered
//     from other attempts. Options.Stop is for whoever cannot wait.
//
// # Search
//
// SEARCH.md has a drawing, an example for each bound, and the words. In short:
//
// Requests are filled one after the other, each with the devices that pass its
// selectors, tolerations and whatever else does not depend on other choices.
// All mutable state changes through one trail, so that undoing is one mechanism
// that cannot forget anything; whoever only judges it sees it as a position, which
// cannot be changed. Before it branches the search counts: candidates
// per request, attribute values that still reach a request's count, matchings of
// requests to distinct values and to devices, the counters that the rest needs at
// least, and whether the devices, divided by attribute value or by card, go round
// for all requests together. Prioritized lists count with the least that one of
// their alternatives needs. Devices that are equal for the problem at hand are tried once,
// and states that were refuted are remembered, up to the symmetry of equal
// counter sets.
//
// # Choice
//
// Alternatives of a prioritized list rank first (KEP-4816). Among the devices
// for the best ranks the [Strategy] decides: [BestFit] keeps what is left usable,
// [Spread] is its reverse, [Listed] is first fit in listed order, exactly as the
// stock allocator's. Where the best takes long, the first that fit are taken.
package alloc
