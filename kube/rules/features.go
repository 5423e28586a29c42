// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
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

// FeatureGates returns the feature gates that EnableFeatures switches on: every gate of
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

// EnableFeatures sets the gates. They are global to the process: the API
// server, the controllers and the scheduler read the same ones, and so do the rules.
// With a gate off the API server would drop its fields unread.
func EnableFeatures() error {
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
