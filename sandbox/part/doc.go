// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package part has what all parts of a sandbox are made of. A [Part] is what can be done to
// one while the others run, a [Table] has them by name. Most are [Lasting], or [Linked],
// with a [Link] to the API server that can be cut. A [Component] is one run of a part.
package part
