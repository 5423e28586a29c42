// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package background does what the scheduler needs done at the API server and must not wait
// for: a [Worker] has a queue and tries again what failed, and [Chores] are what has to be
// done before a pod can be scheduled.
package background
