// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// lookup finds what the scheduler's caches know of pods and their claims.
type lookup struct {
	gates   gates
	handle  fwk.Handle
	manager fwk.SharedDRAManager
}

// claimsOf returns the claims of a pod in the order of its spec, as the assume
// cache has them; they must not be changed. Claims that the pod does not need
// are left out. The error says why the pod has to wait.
func (l *lookup) claimsOf(pod *v1.Pod) ([]*podclaim.Claim, error) {
	var claims []*podclaim.Claim
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, checkOwner, err := resourceclaim.Name(pod, entry)
		if err != nil {
			return nil, err
		}
		if name == nil {
			// No claim was generated, and none is needed.
			continue
		}
		c, err := l.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		if c.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", c.Name)
		}
		if checkOwner {
			if err := resourceclaim.IsForPod(pod, c, l.gates.workloadClaims); err != nil {
				return nil, err
			}
		}
		i := slices.IndexFunc(claims, func(pc *podclaim.Claim) bool { return pc.Claim.UID == c.UID })
		if i < 0 {
			i = len(claims)
			claims = append(claims, &podclaim.Claim{Claim: c, Entry: entry})
		}
		claims[i].Entries = append(claims[i].Entries, entry.Name)
		claims[i].References += claim.References(pod, entry.Name)
	}
	return claims, nil
}

// setConsumers sets what the claims get reserved for: the pod, or its PodGroup
// where that declares the claim (KEP-5729). Only to be used in a scheduling
// cycle, for PodGroups come from its snapshot.
func (l *lookup) setConsumers(pod *v1.Pod, claims []*podclaim.Claim) error {
	podGroup, err := l.podGroupOf(pod)
	if err != nil {
		return err
	}
	for _, pc := range claims {
		if pc.Consumer, err = resourceclaim.BindTo(pod, podGroup, pc.Entry); err != nil {
			return err
		}
	}
	return nil
}

// podGroupOf returns the PodGroup that claims of the pod may be reserved for, nil
// where it has none.
func (l *lookup) podGroupOf(pod *v1.Pod) (*schedulingapi.PodGroup, error) {
	if !l.gates.workloadClaims {
		return nil, nil
	}
	return l.groupOf(pod)
}

// groupOf returns the PodGroup of a pod that is being scheduled, nil where it has
// none.
func (l *lookup) groupOf(pod *v1.Pod) (*schedulingapi.PodGroup, error) {
	group := pod.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil {
		return nil, nil
	}
	return l.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *group.PodGroupName)
}

// reservedFor reports whether the claim is reserved for the pod or its PodGroup.
func (l *lookup) reservedFor(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return resourceclaim.IsReservedForPod(pod, claim, l.gates.workloadClaims)
}

// usesDevices reports whether the pod has claims, or may have a special one.
func (l *lookup) usesDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || l.gates.extended && len(claim.ExtendedResources(pod)) > 0
}
