// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selector evaluates the CEL expressions of device classes and claims
// on devices: selectors (DeviceSelector.cel) and derived attributes
// (DeviceDerivedAttribute). It is the only package that knows CEL.
//
// # Contract
//
//   - A [Matcher] may be used by several goroutines at once.
//   - An answer depends on the expression and on the device's
//     [inventory.Content] alone. Answers are remembered by these two, so slices
//     that are published again with the same devices, and equal devices of other
//     nodes, cost no evaluation. The memory is bounded; what is forgotten is
//     evaluated again.
//   - Every evaluation has the cost limit of the API
//     (CELSelectorExpressionMaxCost); no expression makes a Matcher panic.
//   - Every evaluation ends, and takes time and memory in proportion to its cost. CEL
//     counts the cost of a call only when the call is over, and one may take hours:
//     quantity("1e-999999999"), or s.replace("", s) of what such calls gave. Calls are
//     therefore checked before they begin. One whose arguments ask for more is a
//     run-time error that names the function: amounts that [inventory.CheckQuantity]
//     refuses, whether they stand in the expression, in an attribute of the device or are
//     put together; regular expressions of many thousand instructions, or on long texts;
//     texts beyond 64 KiB; lists and maps, with what is in them, beyond 4096 elements.
//     What takes longer than CEL's cost says, such as compiling a regular expression, is
//     charged for it. The stock scheduler does none of this: there such an expression
//     goes on for as long as it takes. All others have the same answers here.
//   - Expressions are accepted as the API server stored them: what an older or
//     newer API server admitted is not refused for its estimated cost.
//   - A device has what it publishes under both spellings of a name once, as
//     [inventory.OneSpelling] says. The stock scheduler takes one or the other, by the
//     order of a map.
//   - [Matcher.Comparisons] is for explanations: what a selector compares with constants,
//     and so demands of every device. It is understood when the expression is compiled,
//     evaluates nothing and is bounded; what it does not understand it leaves out.
//   - Errors are remembered like answers. A run-time error is a [RuntimeError],
//     which says which device and, where that is the cause, which attribute or
//     capacity the device lacks.
//
// CEL leaves the order in which it walks through a map open. An expression whose
// value depends on it, such as device.attributes["d"].map(k, k)[0], has no
// defined value here either.
package selector
