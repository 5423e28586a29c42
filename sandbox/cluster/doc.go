// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is what follows from what a sandbox's API server holds at one moment:
// what will change by itself ([FindMotions]) and why a pod has no node ([FindPending]).
// A [State] is a snapshot of package kerf.dev/kerf/cluster, and the workloads beside it.
//
// Apart from [Read], everything is a function of the [State] and of what is in
// the scheduling queue.
//
// # Contract
//
//   - FindMotions knows the controllers of a sandbox: scheduler, kubelets, garbage
//     collector, claim controller, eviction, workload controllers. A state without
//     motions stays as it is until somebody changes something.
//   - FindPending has exactly one reason for each pod without a node: the first
//     that applies of scheduling gates, no scheduler, a missing object, binding
//     conditions, the scheduler's own words.
package cluster
