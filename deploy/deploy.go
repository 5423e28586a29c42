// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy has the manifests of this directory that a program may want to
// apply itself.
package deploy

import "embed"

// CRDs are the definitions of Fabric, DeviceAttachment and CompoundPolicy, in the directory
// crds, each file with the name of its group first.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// ControllerRBAC is what kerf-controller may do.
//
//go:embed controller/rbac.yaml
var ControllerRBAC []byte

// ControllerAdmission is what nobody but kerf-controller may write, and the role of
// drivers that is limited by it.
//
//go:embed controller/admission.yaml
var ControllerAdmission []byte

// SchedulerRBAC is what kerf-scheduler may do.
//
//go:embed scheduler/rbac.yaml
var SchedulerRBAC []byte
