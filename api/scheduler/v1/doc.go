// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 has the arguments of the Kerf scheduler plugin, API group
// kubescheduler.kerf.dev/v1.
//
// They appear as pluginConfig[].args of a KubeSchedulerConfiguration. The scheduler hands arguments of
// plugins that it does not know to the plugin as they are; [Decode] reads them, strictly: an unknown field or
// a value that is not allowed is an error that names the field and what is allowed.
package v1
