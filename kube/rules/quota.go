// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
)

// Quotas are the ResourceQuotas of a cluster. They count claims as Kubernetes does.
type Quotas struct {
	quotas    []*corev1.ResourceQuota
	evaluator quota.Evaluator
}

// NewQuotas returns the quotas of a cluster that has the classes, some of which serve
// extended resources.
func NewQuotas(quotas []*corev1.ResourceQuota, classes []*resourceapi.DeviceClass) *Quotas {
	cache := extendedresourcecache.NewExtendedResourceCache(klog.Logger{})
	for _, class := range classes {
		cache.OnAdd(class, true)
	}
	// What a quota allows is in its status once a controller has seen it.
	seen := make([]*corev1.ResourceQuota, len(quotas))
	for i, r := range quotas {
		seen[i] = &corev1.ResourceQuota{ObjectMeta: r.ObjectMeta, Spec: r.Spec, Status: corev1.ResourceQuotaStatus{Hard: r.Spec.Hard}}
	}
	return &Quotas{seen, core.NewResourceClaimEvaluator(nil, cache, nil, nil)}
}

// Limits reports whether a namespace has a quota at all.
func (q *Quotas) Limits(namespace string) bool {
	return slices.ContainsFunc(q.quotas, func(r *corev1.ResourceQuota) bool { return r.Namespace == namespace })
}

// Refuses returns why an API server would not create the claim beside what its namespace
// has, as it words it; empty where it would. A special claim is that of the pod, nil for
// others. Extended resources are counted of pods, too: who asks for them by name and who
// claims devices that serve them draw on one amount.
func (q *Quotas) Refuses(claim *resourceapi.ResourceClaim, pod *corev1.Pod, beside []*resourceapi.ResourceClaim, pods []*corev1.Pod) string {
	wanted := q.usageFor(claim, pod)
	all := sync.OnceValue(func() corev1.ResourceList { return q.usageOf(beside, pods) })
	for _, r := range q.quotas {
		if r.Namespace != claim.Namespace {
			continue
		}
		if matches, err := q.evaluator.Matches(r, claim); err != nil || !matches {
			continue
		}
		requested := quota.Mask(wanted, quota.ResourceNames(r.Spec.Hard))
		used := quota.Add(none(requested), quota.Mask(all(), quota.ResourceNames(requested)))
		if fits, exceeded := quota.LessThanOrEqual(quota.Mask(quota.Add(used, requested), quota.ResourceNames(requested)), r.Spec.Hard); !fits {
			return fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", r.Name,
				amounts(quota.Mask(requested, exceeded)), amounts(quota.Mask(used, exceeded)), amounts(quota.Mask(r.Spec.Hard, exceeded)))
		}
	}
	return ""
}

// usageOf is what is counted of the claims and pods that there are.
func (q *Quotas) usageOf(claims []*resourceapi.ResourceClaim, pods []*corev1.Pod) corev1.ResourceList {
	var used corev1.ResourceList
	for _, c := range claims {
		used = quota.Add(used, q.usageFor(c, userOf(c, pods)))
	}
	for _, pod := range pods {
		used = quota.Add(used, counted(pod))
	}
	return used
}

// none is nothing of each of the resources: an API server names them also where nothing
// is used.
func none(of corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name := range of {
		list[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	return list
}

// usageFor is what is counted for a claim that is made for the pod: of extended
// resources only what was not counted for a pod that exists.
func (q *Quotas) usageFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) corev1.ResourceList {
	usage := q.usage(claim)
	if pod == nil {
		return usage
	}
	counted := counted(pod)
	for name, amount := range usage {
		if of, found := counted[name]; found {
			amount.Sub(of)
			usage[name] = amount
			if amount.Sign() <= 0 {
				delete(usage, name)
			}
		}
	}
	return usage
}

// userOf is the pod that a special claim was made for, nil where there is none.
func userOf(c *resourceapi.ResourceClaim, pods []*corev1.Pod) *corev1.Pod {
	owner := claim.MarkedFor(c)
	if owner == nil {
		return nil
	}
	for _, pod := range pods {
		if pod.Name == owner.Name && claim.UsesSpecial(pod, c) {
			return pod
		}
	}
	return nil
}

// counted is what was counted for a pod when it was created: nothing for one of a
// manifest.
func counted(pod *corev1.Pod) corev1.ResourceList {
	if pod.UID == "" {
		return nil
	}
	list, err := core.PodUsageFunc(pod, clock.RealClock{})
	if err != nil {
		return nil // It fails for what is no pod.
	}
	return list
}

func (q *Quotas) usage(claim *resourceapi.ResourceClaim) corev1.ResourceList {
	usage, err := q.evaluator.Usage(claim)
	if err != nil {
		return nil // It fails for what is no claim.
	}
	return usage
}

func amounts(list corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		texts = append(texts, string(name)+"="+amount.String())
	}
	return strings.Join(texts, ",")
}
