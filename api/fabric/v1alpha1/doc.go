// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the objects that describe fabrics and what is attached
// through them, API group fabric.kerf.dev/v1alpha1.
//
// An administrator writes a [Fabric]. kerf-controller writes a
// [DeviceAttachment] before it asks the fabric's manager for anything, so that
// what an interrupted call did can be found out afterwards.
//
// +kubebuilder:object:generate=true
// +groupName=fabric.kerf.dev
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object:headerFile=header.txt crd paths=. output:crd:dir=../../../deploy/crds output:object:dir=.
