// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podclaim is about one claim of a pod that is being scheduled: what the attempt knows
// of it ([Claim]), why it cannot be used ([BindingError], [JoinError]), the problem that several
// of them make ([Compiler]), and the writes that change it ([Writer]).
//
// Allocation, reservation and the devices' conditions of a claim are given up in one write,
// which fails if the claim has changed.
package podclaim
