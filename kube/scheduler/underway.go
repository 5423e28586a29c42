// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
)

// underWay knows the pods that are between Reserve and the end of PreBind, or of
// Unreserve. Until PreBind has written the claims of such a pod, it is all that says whose
// the devices are that are held in memory for it. The profiles of a scheduler share it.
type underWay struct {
	mutex sync.Mutex
	pods  map[types.UID]*journey
}

// journey is a pod on the way to its node.
type journey struct {
	pod resourceapi.ResourceClaimConsumerReference
	// namespace is that of the pod.
	namespace string
	// claims with devices that may be held in memory, by podClaim.key.
	claims []types.UID
	// stopped tells whether PreBind has been told to stop, turned is set as soon as
	// Unreserve takes back what the pod has.
	stopped func() error
	turned  bool
}

func newUnderWay() *underWay { return &underWay{pods: map[types.UID]*journey{}} }

// begin is called by Reserve.
func (u *underWay) begin(pod *v1.Pod, claims []*podClaim) {
	j := &journey{pod: claim.AsConsumer(pod), namespace: pod.Namespace}
	for _, pc := range claims {
		if pc.pending != nil {
			j.claims = append(j.claims, pc.key())
		}
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.pods[pod.UID] = j
}

// binds is called by PreBind, whose context ends when the pod is preempted meanwhile.
func (u *underWay) binds(ctx context.Context, pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if j := u.pods[pod]; j != nil {
		j.stopped = ctx.Err
	}
}

// turn is called as soon as what the pod has is taken back, also if all was written.
func (u *underWay) turn(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.pods[pod] == nil {
		u.pods[pod] = &journey{}
	}
	u.pods[pod].turned = true
}

// stay is called where something could not be taken back: it stays the pod's.
func (u *underWay) stay(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if j := u.pods[pod]; j != nil {
		j.turned, j.stopped = false, nil
	}
}

// end is called when the pod holds nothing in memory any more.
func (u *underWay) end(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.pods, pod)
}

// returns reports whether a pod is about to give back what it has.
func (u *underWay) returns(pod types.UID) bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	j := u.pods[pod]
	return j != nil && (j.turned || j.stopped != nil && j.stopped() != nil)
}

// all lists the journeys.
func (u *underWay) all() []journey {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	var all []journey
	for _, j := range u.pods {
		one := *j
		one.claims = slices.Clone(j.claims)
		all = append(all, one)
	}
	return all
}
