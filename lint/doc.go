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
//	error    invalid-node-selector        a slice whose node selector cannot be parsed
//	error    oversized-device             a device that consumes more than a counter ever has
//	error    same-hardware                two drivers publish the same hardware on a node
//	error    class-selector-invalid       a class with a selector that does not compile
//	error    claim-selector-invalid       a claim or template with a selector that does not compile
//	error    claim-unknown-class          a claim or template for a class that does not exist
//	warning  pool-stale-slices            slices of an old generation that were left behind
//	warning  class-selector-fails         a class with a selector that fails on devices of its drivers
//	warning  class-matches-nothing        a class that selects no device
//	warning  extended-resource-twice      two classes for the same extended resource
//	warning  near-duplicate-attribute     names of attributes that are easily taken for one another
//	warning  taint-rule-matches-nothing   a DeviceTaintRule that selects no device
//
// An error keeps devices from being allocated or gives them out wrongly; a
// warning may be meant.
//
// The package is pure and deterministic; findings are sorted.
package lint
