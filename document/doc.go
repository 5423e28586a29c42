// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package document reads one document of YAML or JSON that anybody may have written, before it is decoded into API
// objects.
//
// # Contract
//
//   - [Read] refuses what would take much more time or memory than it has bytes: values inside of values beyond
//     [MaxDepth], and aliases that stand for more than [MaxGrowth] times the text. Whoever opens a file limits how
//     much of it is read ([MaxSize]).
//   - [Document.Check] refuses amounts that resource.Quantity computes without end: it writes 1e-999999999 out
//     before it rounds it, and 1e999999999 when it is compared. Check looks where the type of the document has a
//     quantity, and never in a text that only looks like one.
//   - What is refused is a [Fault], with line and field.
//
// The package is pure. Whatever reads files of objects reads them through it first: package manifest of the sandbox (and
// with it the command lines), dump and scenario.
package document
