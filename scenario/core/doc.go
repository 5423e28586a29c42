// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core tells stories without an API server, in milliseconds. It keeps API
// objects in memory and plays the parts of the control plane that claims need:
//
//   - Package simulate places pods, in the order of their creation. What it says of one is
//     written as a scheduler would; every result is verified with alloc.Check before.
//   - The scheduler's wait for devices: binding conditions, allocations that are given up,
//     devices that are avoided after they failed a claim.
//   - The controllers of claims and taints: claims from templates, release of claims,
//     eviction.
//
// Time is the number of objects that were created, so nothing times out. There is no
// preemption, no group of pods and no validation by an API server; stories about those are
// for the sandbox alone.
package core
