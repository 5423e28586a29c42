// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// UnderWay knows the pods that are between Reserve and the end of PreBind, or of
// Unreserve. Until PreBind has written the claims of such a pod, it is all that says whose
// the devices are that are held in memory for it. The profiles of a scheduler share it.
type UnderWay struct {
	mutex sync.Mutex
	pods  map[types.UID]*journey
}

// journey is a pod on the way to its node.
type journey struct {
	Pod resourceapi.ResourceClaimConsumerReference
	// Namespace is that of the pod.
	Namespace string
	// Claims with devices that may be held in memory, by podclaim.Claim.Key.
	Claims []types.UID
	// stopped tells whether PreBind has been told to stop, turned is set as soon as
	// Unreserve takes back what the pod has.
	stopped func() error
	turned  bool
}

func newUnderWay() *UnderWay { return &UnderWay{pods: map[types.UID]*journey{}} }

// Begin is called by Reserve.
func (u *UnderWay) Begin(pod *v1.Pod, claims []*podclaim.Claim) {
	j := &journey{Pod: claim.AsConsumer(pod), Namespace: pod.Namespace}
	for _, pc := range claims {
		if pc.Pending != nil {
			j.Claims = append(j.Claims, pc.Key())
		}
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.pods[pod.UID] = j
}

// Binds is called by PreBind, whose context ends when the pod is preempted meanwhile.
func (u *UnderWay) Binds(ctx context.Context, pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if j := u.pods[pod]; j != nil {
		j.stopped = ctx.Err
	}
}

// Turn is called as soon as what the pod has is taken back, also if all was written.
func (u *UnderWay) Turn(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.pods[pod] == nil {
		u.pods[pod] = &journey{}
	}
	u.pods[pod].turned = true
}

// Stay is called where something could not be taken back: it stays the pod's.
func (u *UnderWay) Stay(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if j := u.pods[pod]; j != nil {
		j.turned, j.stopped = false, nil
	}
}

// End is called when the pod holds nothing in memory any more.
func (u *UnderWay) End(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.pods, pod)
}

// Returns reports whether a pod is about to give back what it has.
func (u *UnderWay) Returns(pod types.UID) bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	j := u.pods[pod]
	return j != nil && (j.turned || j.stopped != nil && j.stopped() != nil)
}

// All lists the journeys.
func (u *UnderWay) All() []journey {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	var all []journey
	for _, j := range u.pods {
		one := *j
		one.Claims = slices.Clone(j.Claims)
		all = append(all, one)
	}
	return all
}
