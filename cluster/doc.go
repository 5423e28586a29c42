// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is what decides about devices in a cluster, at one moment: [Objects]
// are lists of API objects, a [Snapshot] looks them up and has their inventory. Whoever
// asks what is there reads a snapshot, wherever it comes from: a file (package dump), an
// API server, the state of a story.
//
// # Invariants
//
//   - Objects are not changed.
//   - The lists of a snapshot are sorted by namespace and name.
package cluster
