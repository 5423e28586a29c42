// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why claims cannot be allocated and what would help. It
// is the single place for the wording; whoever shows a refusal, a problem of a
// pool or bad input to people takes the text from here.
//
//   - [Reason] is one short line about one node. A [Cause] is the same line in parts:
//     nodes in the same situation differ in names alone, so that [Group] can tell of
//     them together, and [Within] shows what there is room for, what tells most first.
//   - [Describe] is everything about one node, as a value that becomes JSON or,
//     with [Refusal.Text], a few lines of text.
//   - [Remedies] looks for changes after which the claims would fit.
//
// # Invariants
//
//   - Texts are a function of the arguments: no clock, no random order.
//   - A name of a claim appears only where [Options].Visible lets it; claims of
//     other namespaces are counted.
//   - Lists are cut after a few entries and say how many are left out.
package explain
