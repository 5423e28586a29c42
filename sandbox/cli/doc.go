// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of kerf-sandbox.
//
// Results go to standard output, everything else to standard error. Exit codes:
//
//	0  run: all pods are placed; up: a signal stopped the sandbox
//	1  a pod is pending, or something did not finish in time
//	2  bad input: a flag or a manifest is wrong, or the API server refused an object
//	3  the sandbox itself failed or was interrupted, or allocations break a rule
package cli
