// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the object that says which compound devices exist, API group
// compound.kerf.dev/v1alpha1.
//
// An administrator writes a [CompoundPolicy]. Package compound decides what it means on a
// node; docs/compound.md explains it.
//
// +kubebuilder:object:generate=true
// +groupName=compound.kerf.dev
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object:headerFile=header.txt crd paths=. output:crd:dir=../../../deploy/crds output:object:dir=.
