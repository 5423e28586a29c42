// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dropin is package alloc behind the constructor and the interface of
// k8s.io/dynamic-resource-allocation/structured.
package dropin
