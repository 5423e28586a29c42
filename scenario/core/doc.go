// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core tells stories without an API server, in milliseconds. It keeps API
// objects in memory and plays the parts of the control plane that claims need:
// the claim controller (claims from templates, release of claims) and a scheduler
// that takes pods in the order of their creation and puts each on the node where
// package alloc's result costs least, the first by name among equal ones. Every
// result is verified with alloc.Check before it is used.
//
// It knows of a node what devices need: name, labels, whether it is schedulable.
// There is no clock, no preemption, no eviction and no validation by an API
// server; stories about those are for the sandbox alone.
package core
