// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// InFlight knows what the devices of pods on the way to their nodes take of the
// resources of those nodes. The scheduler's cache learns it from the status of
// the pods, and that is written just before they are bound. Where it does not say
// everything (see Untold) the pods stay here for as long as they exist.
type InFlight struct {
	mutex sync.Mutex
	pods  map[string]map[types.UID]arrival // by node
}

// arrival is a pod on the way to its node, or there, and what its devices take of it.
type arrival struct {
	namespace, name string
	taken           Resources
}

// beyond is what the devices take beyond what the status of the pod says.
func (a arrival) beyond(pod *v1.Pod) Resources {
	if len(a.taken) == 0 {
		return nil
	}
	said := claim.TakenByDevices(pod)
	left := Resources{}
	for name, amount := range a.taken {
		if more := amount.Sub(said[name]); more.Sign() > 0 {
			left[name] = more
		}
	}
	return left
}

// Resources are amounts of resources of a node.
type Resources map[v1.ResourceName]inventory.Amount

func newInFlight() *InFlight { return &InFlight{pods: map[string]map[types.UID]arrival{}} }

// Add notes what the devices of a pod on its way take of the node.
func (f *InFlight) Add(node string, pod *v1.Pod, taken Resources) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.pods[node] == nil {
		f.pods[node] = map[types.UID]arrival{}
	}
	f.pods[node][pod.UID] = arrival{pod.Namespace, pod.Name, taken}
}

// Remove drops a pod that does not get to the node.
func (f *InFlight) Remove(node string, pod types.UID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.pods[node], pod)
	if len(f.pods[node]) == 0 {
		delete(f.pods, node)
	}
}

// Has reports whether a pod is known on a node.
func (f *InFlight) Has(node string, pod types.UID) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	_, found := f.pods[node][pod]
	return found
}

// Forget drops a node that is gone; binding its pods will fail.
func (f *InFlight) Forget(node string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.pods, node)
}

// Nodes lists the nodes that pods are on the way to.
func (f *InFlight) Nodes() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Collect(maps.Keys(f.pods))
}

// On sums up what the node does not account for although the pod is on it: the
// framework decides which pods count, also where it simulates that some are gone.
func (f *InFlight) On(node fwk.NodeInfo) Resources {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	waiting := f.pods[node.Node().Name]
	if len(waiting) == 0 {
		return nil
	}
	sum := Resources{}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		for name, amount := range waiting[pod.UID].beyond(pod) {
			sum[name] = sum[name].Add(amount)
		}
	}
	return sum
}

// Settle forgets the pods that the node accounts for by now, and those that are
// gone. The node has to be as the scheduler's cache has it.
func (f *InFlight) Settle(node fwk.NodeInfo, gone func(namespace, name string, uid types.UID) bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	name := node.Node().Name
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if a, found := f.pods[name][pod.UID]; found && len(a.beyond(pod)) == 0 {
			delete(f.pods[name], pod.UID)
		}
	}
	maps.DeleteFunc(f.pods[name], func(uid types.UID, a arrival) bool { return gone(a.namespace, a.name, uid) })
	if len(f.pods[name]) == 0 {
		delete(f.pods, name)
	}
}
