// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/compound/v1alpha1"
)

// ByNode returns what drivers publish for nodes, by node: what [Decide] is to be asked about
// in a cluster. Nodes where molecules are published already are left out, since atoms do
// not reach the cluster there.
func ByNode(policies []*v1alpha1.CompoundPolicy, of []*resourceapi.ResourceSlice) map[string][]*resourceapi.ResourceSlice {
	molecules, done := map[string]bool{}, map[string]bool{}
	for _, p := range policies {
		molecules[driverOf(p)] = true
	}
	for _, p := range policies {
		for _, a := range p.Spec.Atoms {
			delete(molecules, a.Driver) // a mistake, which Check reports
		}
	}
	byNode := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range of {
		switch node := s.Spec.NodeName; {
		case node == nil:
		case molecules[s.Spec.Driver]:
			done[*node] = true
		default:
			byNode[*node] = append(byNode[*node], s)
		}
	}
	maps.DeleteFunc(byNode, func(node string, _ []*resourceapi.ResourceSlice) bool { return done[node] })
	return byNode
}
