// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"

	"kerf.dev/kerf/sandbox/kubeversion"
)

// serverVersion is the version of the API server, with a name that clients can
// parse.
type serverVersion struct {
	basecompatibility.MutableEffectiveVersion
}

// Info is what /version returns.
func (v serverVersion) Info() *apimachineryversion.Info {
	info := v.MutableEffectiveVersion.Info()
	info.GitVersion = kubeversion.GitVersion()
	return info
}

// serverGlobals are the version and the feature gates of the API server. The
// gates are those of the process.
func serverGlobals() (basecompatibility.ComponentGlobalsRegistry, error) {
	registry := basecompatibility.NewComponentGlobalsRegistry()
	version := serverVersion{compatibility.DefaultBuildEffectiveVersion()}
	err := registry.Register(basecompatibility.DefaultKubeComponent, version, utilfeature.DefaultMutableFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("register version and feature gates: %w", err)
	}
	return registry, nil
}
