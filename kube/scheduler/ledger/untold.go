// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Untold knows the pods on nodes whose status does not say what their special claim takes
// of the node. API servers of Kubernetes 1.37 do not accept that. While
// the scheduler runs inFlight knows of them; after a restart they are found here, and what
// they take is worked out from their claims and the devices as they are published now.
type Untold struct {
	mutex sync.Mutex
	// pods that have not been looked at, or some of whose devices nobody publishes.
	pods map[types.UID]UntoldPod
}

// UntoldPod is a pod whose status does not say all.
type UntoldPod struct {
	Pod *v1.Pod
	// Seen is the snapshot that did not have all devices.
	Seen *inventory.Snapshot
}

func newUntold() *Untold { return &Untold{pods: map[types.UID]UntoldPod{}} }

func (u *Untold) changed(pod *v1.Pod) {
	special := pod.Status.ExtendedResourceClaimStatus
	if pod.Spec.NodeName == "" || special == nil || claim.Says(pod.Status.NodeAllocatableResourceClaimStatuses, special.ResourceClaimName) {
		u.Forget(pod.UID)
		return
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.pods[pod.UID] = UntoldPod{pod, u.pods[pod.UID].Seen}
}

// Forget drops a pod that says all, is accounted for, or is gone.
func (u *Untold) Forget(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.pods, pod)
}

// Keep notes that a snapshot did not have all devices of a pod.
func (u *Untold) Keep(pod *v1.Pod, seen *inventory.Snapshot) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if known, found := u.pods[pod.UID]; found && known.Pod == pod {
		u.pods[pod.UID] = UntoldPod{pod, seen}
	}
}

// All lists the pods.
func (u *Untold) All() []UntoldPod {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return slices.Collect(maps.Values(u.pods))
}
