// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// A device becomes free in steps: its pod is evicted, ends and is gone, the claim loses
// reservation and allocation and is deleted, and the record of what is taken follows last.
// Each is seen at another moment, and in between nobody has to be evicted for the device
// once more. So what becomes free is not read off what has happened to its claim: it is
// all that is taken and that nobody keeps.

// keepers finds out who keeps devices.
type keepers struct {
	handle    fwk.Handle
	manager   fwk.SharedDRAManager
	users     *ledger.Users
	underWay  *ledger.UnderWay
	exchanges *ledger.Exchanges
}

// tenures say who keeps which devices.
type tenures map[inventory.DeviceID][]tenure

// tenure is a hold and who keeps it: without any pod, or once the last is gone, the device
// becomes free.
type tenure struct {
	hold inventory.Hold
	pods []types.UID
	// lasts is set where it does not depend on pods alone.
	lasts bool
}

func (t *tenure) over(gone sets.Set[types.UID]) bool { return !t.lasts && gone.HasAll(t.pods...) }

func (t tenures) add(holds []inventory.Hold, pods []types.UID, lasts bool) {
	for _, h := range holds {
		t[h.Device] = append(t[h.Device], tenure{h, pods, lasts})
	}
}

// tenures looks who keeps devices as things are now, when a pod is to be scheduled. The
// pod's own claims are not given up for it.
func (k *keepers) tenures(pod *v1.Pod, own []*podclaim.Claim) (tenures, error) {
	claims, err := k.manager.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	found := tenures{}
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			pods, lasts := k.keepersOf(claim, pod)
			found.add(inventory.HoldsOf(claim), pods, lasts || podclaim.HoldsClaim(own, claim.UID))
		}
	}
	for _, j := range k.underWay.All() {
		if k.leaves(pod, j.Namespace, j.Pod) {
			continue
		}
		for _, claim := range j.Claims {
			if pending := k.manager.ResourceClaims().GetPendingAllocation(claim); pending != nil {
				inMemory := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: pending}}
				found.add(inventory.HoldsOf(inMemory), []types.UID{j.Pod.UID}, false)
			}
		}
	}
	for _, id := range k.exchanges.Promised() {
		found.add([]inventory.Hold{{Device: id}}, nil, true)
	}
	return found, nil
}

// keepersOf returns the pods that keep an allocated claim; lasts is set where others do.
// A claim that nobody uses stays allocated, unless it is being deleted.
func (k *keepers) keepersOf(c *resourceapi.ResourceClaim, preemptor *v1.Pod) (pods []types.UID, lasts bool) {
	for _, consumer := range c.Status.ReservedFor {
		switch {
		case !claim.IsPod(consumer):
			lasts = true // a PodGroup keeps its claims without pods, too
		case !k.leaves(preemptor, c.Namespace, consumer):
			pods = append(pods, consumer.UID)
		}
	}
	if len(c.Status.ReservedFor) == 0 {
		lasts = c.DeletionTimestamp == nil && !k.ownerGone(c)
	}
	return pods, lasts
}

// ownerGone reports whether the claim was made for a pod that is gone: it will be deleted.
func (k *keepers) ownerGone(claim *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOf(claim)
	return owner != nil && owner.APIVersion == "v1" && owner.Kind == "Pod" &&
		k.users.Gone(claim.Namespace, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: owner.Name, UID: owner.UID})
}

// leaves reports whether a pod is gone, or bound to give its devices back: it does not get
// to its node, or it was evicted for the preemptor.
func (k *keepers) leaves(preemptor *v1.Pod, namespace string, consumer resourceapi.ResourceClaimConsumerReference) bool {
	if k.users.Gone(namespace, consumer) || k.underWay.Returns(consumer.UID) {
		return true
	}
	pod, err := k.users.Lister.Pods(namespace).Get(consumer.Name)
	return err == nil && preemption.PodTerminatingByPreemption(pod) && k.nominatedTo(preemptor, pod.Spec.NodeName)
}

// nominatedTo reports whether pods were evicted on the node for this one. Its status may
// not say so yet.
func (k *keepers) nominatedTo(pod *v1.Pod, node string) bool {
	return slices.ContainsFunc(k.handle.NominatedPodsForNode(node), func(info fwk.PodInfo) bool { return info.GetPod().UID == pod.UID })
}

// freed returns what is taken of the pools of a node and becomes free, or would if those
// pods were gone, too.
func (t tenures) freed(view *inventory.View, gone sets.Set[types.UID]) []inventory.Hold {
	var freed []inventory.Hold
	for i := range view.Pools {
		pool, use := view.Pools[i].Pool, view.Pools[i].Use
		for d, o := range use.Taken {
			if o != nil {
				freed = append(freed, t.freedOf(pool.Devices[d].ID, o, gone)...)
			}
		}
		for name, o := range use.Gone {
			id := inventory.DeviceID{Driver: pool.ID.Driver, Pool: pool.ID.Pool, Device: name}
			freed = append(freed, t.freedOf(id, o, gone)...)
		}
	}
	return freed
}

// freedOf returns what becomes free of one device. Which share is whose does not matter:
// what those that stay do not consume goes with the others.
func (t tenures) freedOf(id inventory.DeviceID, o *inventory.Occupancy, gone sets.Set[types.UID]) []inventory.Hold {
	dedicated, shares := false, map[types.UID]inventory.Hold{}
	for i := range t[id] {
		switch one := &t[id][i]; {
		case one.over(gone):
		case one.hold.ShareID == "":
			dedicated = true
		default:
			shares[one.hold.ShareID] = one.hold
		}
	}
	var freed []inventory.Hold
	if o.Dedicated && !dedicated {
		freed = append(freed, inventory.Hold{Device: id})
	}
	if o.Shares <= len(shares) {
		return freed
	}
	consumed := map[resourceapi.QualifiedName]inventory.Amount{}
	for name, amount := range o.Consumed {
		for _, stays := range shares {
			amount = amount.Sub(stays.Consumed[name])
		}
		consumed[name] = amount
	}
	for range o.Shares - len(shares) {
		freed = append(freed, inventory.Hold{Device: id, ShareID: "given back", Consumed: consumed})
		consumed = nil
	}
	return freed
}
