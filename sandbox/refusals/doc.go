// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusals compares, over generated manifests, what an API server refuses with
// what kerf's commands do: they take what the server takes, and refuse the rest for the
// same fields.
//
// The manifests are those of package kube/manifest/variants. The server is asked with a
// dry run.
package refusals
