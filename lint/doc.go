// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds mistakes in what drivers publish and in what classes and
// claims ask for, before a pod waits because of them.
//
// [Check] takes a dump and returns findings. Each one names a rule, an object, a
// field of it, what is wrong and what to do. The rules are:
//
//	level    rule                         finds
//	error    pool-incomplete              a pool that lacks slices
//	error    pool-slice-count             slices of a pool that disagree on resourceSliceCount
//	error    pool-collision               several nodes publish the same pool
//	error    duplicate-device             a pool that publishes a device name twice
//	error    duplicate-counter-set        a pool that publishes a counter set twice
//	error    dangling-counter             a device that consumes from a counter or set that the pool lacks
//	error    slice-invalid                a slice without driver or pool, with a generation or number of slices that cannot be, or with more than the API allows
//	error    slice-node-selection         a slice or device that no node reaches, or that says more than once which nodes do
//	error    invalid-node-selector        a slice, device or allocation whose node selector cannot be parsed
//	error    attribute-invalid            an attribute that fails every expression on its device: no or several values, no semantic version
//	error    request-policy-invalid       a request policy that contradicts itself or the capacity it divides
//	error    node-resource-invalid        a resource of the node of which a device takes nothing: an unknown capacity, a multiplier that is not positive
//	error    uncountable-quantity         an amount in a slice or claim above 1e24, which nobody can compute with
//	error    oversized-device             a device that consumes more than a counter ever has
//	error    same-hardware                two drivers publish the same hardware on a node
//	error    class-selector-invalid       a class with a selector that does not compile
//	error    class-invalid                a class for an extended resource whose name the API does not allow
//	error    claim-selector-invalid       a claim or template with a selector that does not compile
//	error    claim-unknown-class          a claim or template for a class that does not exist, unless made for extended resources
//	error    claim-invalid                a claim or template with names, counts or numbers of requests that the API does not allow
//	error    claim-unknown-request        a constraint or configuration for a request that the claim does not have
//	error    capacity-twice               a request that names one capacity under both spellings of its name
//	error    capacity-too-many            a request for more capacities than a device can have
//	error    claim-derived-invalid        a derived attribute that does not compile, or that no constraint uses
//	error    overallocated                devices, shares or counters that are held twice
//	error    allocation-unknown-request   a claim that holds a device for a request it does not have
//	error    pod-invalid                  a container that uses a claim which its pod does not have
//	error    pod-unknown-request          a container that uses a request which the claim does not have
//	error    pod-elsewhere                a pod on a node where the devices of its claim cannot be used
//	error    extended-resource-invalid    a pod that asks for an extended resource in a way that the API does not allow
//	warning  pool-stale-slices            slices of an old generation that were left behind
//	warning  class-selector-fails         a class with a selector that fails on devices of its drivers
//	warning  class-matches-nothing        a class that selects no device
//	warning  extended-resource-twice      two classes for the same extended resource
//	warning  extended-resource-plugin     a node where a device plugin offers what a class serves with devices of the node
//	warning  negative-quantity            a quantity below zero in a slice or claim
//	warning  near-duplicate-attribute     names of attributes that are easily taken for one another
//	warning  published-twice              a device that publishes an attribute or capacity under both spellings of its name
//	warning  taint-rule-matches-nothing   a DeviceTaintRule that selects no device
//	warning  claim-derived-fails          a derived attribute that fails on all devices that match
//	warning  expressions-unchecked        expressions that take too long to evaluate on all devices
//	warning  allocation-unpublished       a claim that holds a device which is not published
//	warning  pod-unknown-claim            a pod whose claim or template does not exist
//	warning  slice-unknown-node           a slice or device for a node that does not exist
//	warning  whole-beside-parts           a device that can be given out beside what look like its parts
//	warning  same-serial-number           two drivers publish hardware with the same serial number on a node
//
// An error keeps devices from being allocated, or gets them allocated wrongly. A warning
// may be intended. Some rules find what an API server of this version refuses. Dumps and
// clusters can have such objects, from a server of another version; the command line
// refuses manifests with them before Check sees them. [Misdirected] returns only the
// claims that leave out a request.
//
// Evaluating expressions has a budget in CEL's cost. It grows with the devices, and no
// honest class comes near it. What is left when it is spent is not evaluated, and
// reported as unchecked.
//
// The package is pure and deterministic; findings are sorted.
package lint
