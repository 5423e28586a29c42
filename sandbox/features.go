// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/features"
)

// workloadGates are the feature gates of workload scheduling (KEP-4671,
// KEP-5732, KEP-5729) and of node features, which devices build on.
var workloadGates = []featuregate.Feature{
	features.GenericWorkload,
	features.TopologyAwareWorkloadScheduling,
	features.PodGroupPreemptionPolicy,
	features.CompositePodGroup,
	features.WorkloadWithJob,
	features.NodeDeclaredFeatures,
	features.ResourceHealthStatus,
}

// FeatureGates returns the feature gates that Start switches on: every gate of
// dynamic resource allocation and of workload scheduling that this version of
// Kubernetes knows, whatever its maturity.
func FeatureGates() map[string]bool {
	gates := map[string]bool{}
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if strings.HasPrefix(string(gate), "DRA") {
			gates[string(gate)] = true
		}
	}
	for _, gate := range workloadGates {
		gates[string(gate)] = true
	}
	return gates
}

// enableFeatures sets the gates. They are global to the process: the API
// server, the controllers and the scheduler read the same ones.
func enableFeatures() error {
	off := map[string]bool{}
	for gate := range FeatureGates() {
		// Setting a gate that is on anyway makes Kubernetes log a warning.
		if !utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(gate)) {
			off[gate] = true
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(off); err != nil {
		return fmt.Errorf("enable feature gates: %w", err)
	}
	return nil
}

// servedVersions is the API server's runtime configuration: every version of
// resource.k8s.io and scheduling.k8s.io is served, alpha ones too.
func servedVersions() map[string]string {
	served := map[string]string{}
	for _, group := range []string{resource.GroupName, scheduling.GroupName} {
		for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(group) {
			served[version.String()] = "true"
		}
	}
	return served
}
