// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger is what the plugin remembers beside what the API server says: which devices
// are chosen and not written yet, which devices failed a claim, which pods wait and for how
// long. [Ledger] has one handler of the events of pods and one of those of claims, which tell
// its parts. Each part has a lock of its own and never calls another while it holds it, but
// for [Exchanges], which tells [Reservations].
//
// Nothing here decides anything, and nothing writes to the API server. After a restart the
// ledger is empty: what has to survive is in the API.
package ledger
