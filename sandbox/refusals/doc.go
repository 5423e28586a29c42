// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusals compares, over generated manifests, what an API server refuses with
// what kerf's commands do: they take what the server takes, and refuse the rest for the
// same fields.
//
// A manifest is generated from a sound one of its kind by changing one place of it:
// a value is left out, emptied, repeated, made too long, too large, negative, or one of
// those that the API has elsewhere. The server is asked with a dry run.
package refusals
