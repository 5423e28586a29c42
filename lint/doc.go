// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds mistakes in what drivers publish and in what classes and
// claims ask for, before a pod waits because of them.
//
// [Check] takes a dump and returns findings. Each one names a rule, an object, a
// field of it, what is wrong and what to do. The rules are:
//
//	level    rule                        finds
//	error    refused                     what an API server of this version refuses: objects of a dump or cluster that another version took, or something beside API servers wrote
//	error    pool-incomplete             a pool that lacks slices, or has too many
//	error    pool-slice-count            slices of a pool that disagree on resourceSliceCount
//	error    pool-collision              several nodes publish the same pool: devices of one name are given out once, and a node that lacks slices may lose its devices
//	error    duplicate-device            a pool, perhaps of several nodes, that publishes a device name twice
//	error    duplicate-counter-set       a pool that publishes a counter set twice
//	error    dangling-counter            a device that consumes from a counter or set that the pool lacks
//	error    invalid-node-selector       a slice, device or allocation whose node selector cannot be parsed
//	error    uncountable-quantity        an amount in a slice or claim above 1e24, which nobody can compute with
//	error    oversized-device            a device that consumes more than a counter ever has
//	error    same-hardware               two drivers publish the same hardware on a node (PCI bus ID, UUID)
//	error    class-selector-invalid      a class with a selector that does not compile, or with regular expressions of a size that kerf refuses
//	error    claim-selector-invalid      a claim or template with such a selector
//	error    claim-unknown-class         a claim or template for a class that does not exist, unless a scheduler made it for extended resources
//	error    claim-unknown-request       a constraint or configuration for a request that the claim does not have
//	error    capacity-twice              a request that names one capacity under both spellings, bandwidth and nic.example.com/bandwidth
//	error    capacity-too-many           a request for more capacities than a device can have
//	error    claim-derived-invalid       a derived attribute that does not compile
//	error    overallocated               devices, shares or counters that are held twice
//	error    pod-unknown-request         a container that uses a request which the claim does not have
//	error    pod-elsewhere               a pod on a node where the devices of its claim cannot be used
//	error    compound-invalid            a CompoundPolicy with a mistake: nothing of its drivers is published
//	error    compound-too-many           a CompoundPolicy with more molecules on a node than there is room for, or selectors that take too long
//	warning  pool-stale-slices           slices of an old generation that were left behind
//	warning  class-selector-fails        a class with a selector that fails on devices
//	warning  class-matches-nothing       a class that selects no device
//	warning  extended-resource-twice     two classes for the same extended resource
//	warning  extended-resource-plugin    a node where a device plugin offers what a class serves with devices of the node
//	warning  negative-quantity           a quantity below zero in a slice or claim, which the API takes
//	warning  near-duplicate-attribute    a standard attribute under the driver's own domain; names that differ in case alone
//	warning  published-twice             a device that publishes an attribute or capacity under both spellings of its name, of which only the one with the domain counts
//	warning  taint-rule-matches-nothing  a DeviceTaintRule that selects no device
//	warning  claim-derived-fails         a derived attribute that fails on all devices that match
//	warning  expressions-unchecked       expressions that take too long to evaluate on all devices: the classes and claims from there on are not evaluated
//	warning  allocation-unpublished      a claim that holds a device which is not published
//	warning  pod-unknown-claim           a pod whose claim or template does not exist
//	warning  slice-unknown-node          a slice or device for a node that does not exist
//	warning  whole-beside-parts          a device beside what look like its parts (a name, hardware identity or parent attribute in common, and less capacity), and no counter keeps them apart
//	warning  same-serial-number          two drivers publish hardware with the same serial number on a node
//	warning  compound-nothing            a CompoundPolicy or a molecule of it that yields no device on any node
//	warning  compound-atom-twice         a device that two atoms of a CompoundPolicy select, or that a molecule lists twice
//	warning  compound-overlap            devices that two CompoundPolicies select: the first by name has them
//	warning  compound-unknown-attribute  members of a molecule that are to share an attribute which none of them has
//	warning  compound-left-out           devices that a CompoundPolicy cannot combine, or has to leave out
//
// An error keeps devices from being allocated, or gets them allocated wrongly. A warning
// may be intended. [Misdirected] returns only the claims that leave out a request.
//
// The rules of Kubernetes itself are not among these: the verdict of an API server is an
// argument. Each refusal is an error, but where an error of another rule says what follows
// from the same field.
//
// Evaluating expressions has a budget in CEL's cost. It grows with the devices, and no
// honest class comes near it. What is left when it is spent is not evaluated, and
// reported as unchecked.
//
// The package is pure and deterministic; findings are sorted.
package lint
