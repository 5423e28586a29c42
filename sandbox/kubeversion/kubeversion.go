// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeversion knows which Kubernetes is compiled into the process.
//
// Kubernetes' own version package only knows it in binaries that were linked by
// Kubernetes' build scripts; elsewhere it says v0.0.0, which is no version that
// a kubectl understands.
package kubeversion

import (
	"runtime/debug"

	"k8s.io/component-base/version"
)

// GitVersion returns the version as Kubernetes writes it, such as v1.37.2.
func GitVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "v" + version.DefaultKubeBinaryVersion + ".0"
}
