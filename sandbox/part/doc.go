// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package part is what all parts of a sandbox are made of: a [Component] that runs until
// it is stopped, and the [Link] through which it reaches the others and which can be cut.
package part
