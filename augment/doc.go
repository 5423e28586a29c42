// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package augment adds attributes and taints, which files ask for, to the
// devices of a DRA driver before the driver publishes them.
//
// # Format
//
// A file is YAML or JSON. It holds one or more documents:
//
//	apiVersion: kerf.dev/v1alpha1
//	kind: DeviceAugmentation
//	driver: gpu.example.com             # exactly the driver's name
//	rules:
//	- select:                           # all that is given must match
//	    attributes:
//	      uuid: {string: GPU-123}       # int, bool, string or version
//	  add:
//	    taints:
//	    - key: fabric.kerf.dev/claim
//	      value: 5f0cbb1a-7c5e-4a57-a2c3-0c1f2f4d8a11
//	      effect: NoSchedule
//	- select:
//	    pool: node-1                    # exact or a pattern
//	    name: gpu-?                     # exact or a pattern
//	  add:
//	    attributes:
//	      example.com/rack: {string: r7}  # any value that the API has
//
// Attributes and taints are written as in a ResourceSlice. Patterns are those of
// [path.Match]: * is any run of characters without a slash, ? is one character,
// [a-c] is one of a set. A name without a domain belongs to the driver's domain:
// uuid and gpu.example.com/uuid are the same attribute of gpu.example.com, also
// where device and file write it differently. A value selects a list attribute
// that includes it.
//
// # Contract
//
//   - [Parse] takes a file as a whole or not at all. Fields that are not known,
//     and values that the API server would refuse, are errors, each with file,
//     line, field and fix.
//   - Rules select by what the driver wrote, never by what other rules add, so
//     the order of rules does not matter.
//   - Rules add and never replace. A file that gives an attribute another value
//     than the driver or a file before it does, or that pushes a device over a
//     limit of the API, is refused as a whole, by a [Refusal] that names both
//     sides. "Before" is the order of file names, whatever the order of loading.
//   - Taints of several files add up, since each keeps claims away by itself.
//   - The devices that go in are not changed. [Additions] says what was added to
//     which device; [Additions.Strip] takes it away again.
//
// The package is pure: no client, no clock, no goroutine, no logger. Its twin
// kube/augment reads and watches a directory of such files and publishes.
package augment
