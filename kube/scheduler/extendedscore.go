// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
)

// foundOn returns what Filter found on a node. What a device plugin serves there
// costs as much as the same number of devices would, so that both kinds of nodes are
// ranked on one scale.
func (s *cycleState) foundOn(node fwk.NodeInfo) (finding, bool) {
	way := s.wayOn(node.Node().Name)
	f, ok := way.on(node.Node().Name)
	if s.extended == nil {
		return f, ok
	}
	cost, served := s.extended.PluginCost(node)
	if !ok && !served {
		return finding{}, false
	}
	result := alloc.Result{}
	if f.result != nil {
		result = *f.result
	}
	result.Cost.Size += cost.Size
	result.Cost.Open += cost.Open
	f.result = &result
	return f, true
}
