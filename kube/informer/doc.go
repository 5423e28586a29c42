// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informer turns what a scheduler watches into inventory snapshots.
//
// A [Feed] reads from the scheduling framework's SharedDRAManager, not from the
// API: that is what embedders such as the Cluster Autoscaler replace, and it
// knows about allocations before they are written. Between two snapshots the
// feed hands over only what changed, so a snapshot costs comparisons for what is
// there and work for what is different.
//
// The manager tells which devices are taken, not by whom: the holders of the
// occupancies in these snapshots are unnamed.
//
// [Conflicts] looks after devices that somebody else gave out a second time. They
// are reported and stay taken until the last of their claims is gone.
package informer
