// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import "kerf.dev/kerf/simulate"

// pastScheduler is why nothing changes for a pod that was given a node by somebody else.
const pastScheduler = "spec.nodeName was set past the scheduler, which alone allocates devices; delete the pod and create it without spec.nodeName, with a nodeSelector if it is to be this node"

// stranded says why a pod cannot start on the node that it has.
func stranded(o *simulate.Obstacle) string {
	switch o.Kind {
	case simulate.NotAllocated:
		return "cannot start: ResourceClaim " + o.Name + " is not allocated: " + pastScheduler
	case simulate.AllocatedElsewhere:
		return "cannot start: ResourceClaim " + o.Name + " is allocated for other nodes: " + pastScheduler
	case simulate.NotServedThere:
		return "cannot start: the node does not offer " + o.Name + " itself, and no claim has the devices that serve it: " + pastScheduler
	}
	return string(o.Kind)
}
