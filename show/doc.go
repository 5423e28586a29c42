// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package show describes what there is: pools as trees of cards and devices ([PoolOf]),
// claims with their devices ([Claim]), pods with all they have or wait for ([World]). Each
// view is a value that becomes JSON or, with its Text, lines for a terminal.
//
// Why something is refused is the business of package explain, whose words are used here.
//
// # Invariants
//
//   - Texts are a function of the arguments: no clock, no random order.
//   - Nothing is read back out of a text: whoever needs to know more than a view says adds
//     a field to it.
//   - A name of a claim appears only where Visible lets it; claims of other namespaces are
//     counted.
package show
