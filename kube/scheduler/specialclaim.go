// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
)

// placeholderName is what the SharedDRAManager knows a special claim by that does not
// exist yet. No object can have it.
const placeholderName = "<extended-resources>"

// special marks the claim that is made for the extended resources of a pod.
type special struct {
	// placeholder is the UID under which the claim is held in memory, the same in
	// all attempts.
	placeholder types.UID
	demands     []claim.Demand
	mappings    []v1.ContainerExtendedResourceRequest
	containers  []string
	// inMemory is set until the claim exists, made from when PreBind tries to
	// create it.
	inMemory, made bool
}

// placeholderUID is that of the special claim of a pod while it is in memory.
func placeholderUID(pod types.UID) types.UID { return "extended-resources/" + pod }

// key is what is remembered about a claim is filed under.
func (pc *podClaim) key() types.UID {
	if pc.special != nil {
		return pc.special.placeholder
	}
	return pc.claim.UID
}

// newSpecial makes the claim that serves some demands of a pod.
func newSpecial(pod *v1.Pod, demands []claim.Demand) *podClaim {
	sp := &special{placeholder: placeholderUID(pod.UID), demands: demands, inMemory: true}
	sp.mappings, sp.containers = claim.MappingsOf(demands)
	c := claim.NewSpecial(pod, demands)
	c.Name, c.UID = specialName(pod), sp.placeholder
	return &podClaim{
		claim: c, special: sp, references: len(sp.containers),
		consumer: claim.AsConsumer(pod),
	}
}

func specialName(pod *v1.Pod) string { return claim.SpecialName(pod.Name, pod.UID) }

// isSpecialOf reports whether the claim is one that was made for the pod's extended
// resources: its status names it, or a scheduler made it. One that the pod asks for by
// name is not, whatever its annotations say.
func isSpecialOf(rc *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	owner := claim.MarkedFor(rc)
	if owner == nil || owner.UID != pod.UID || rc.Namespace != pod.Namespace {
		return false
	}
	_, made := claim.SpecialOwner(rc)
	return (made || rc.Name == claim.SpecialNamed(pod)) && !slices.ContainsFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool {
		return c.ResourceClaimName != nil && *c.ResourceClaimName == rc.Name
	})
}

// chooseSpecial picks the claim to stay if a pod has several: the one in its status,
// else the oldest. One that is being deleted does not stay.
func chooseSpecial(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (kept *resourceapi.ResourceClaim, left []*resourceapi.ResourceClaim) {
	named := claim.SpecialNamed(pod)
	slices.SortFunc(claims, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(compareBool(a.Name != named, b.Name != named), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, claim := range claims {
		if kept == nil && claim.DeletionTimestamp == nil {
			kept = claim
		} else {
			left = append(left, claim)
		}
	}
	return kept, left
}

// specialClaims makes the claims that serve extended resources, and removes them.
type specialClaims struct {
	gates    gates
	client   kubernetes.Interface
	manager  fwk.SharedDRAManager
	clock    clock.Clock
	lookup   *lookup
	writer   *writer
	bindings *bindings
	watch    *claimWatch
	failures *failures
	specials *specials
	underWay *underWay
	chores   *chores
	denials  *pauses
}

// specials finds special claims by pod, and remembers what the API server may not
// have told yet.
type specials struct {
	claims cache.Indexer
	index  string

	mutex sync.Mutex
	// named has the special claims that the status of pods may name.
	named map[types.UID]string
	// unsettled has the special claims, by their pods, which may exist although
	// they should not. Their devices stay taken.
	unsettled map[types.UID]string
	// removed has the special claims, by their pods, which are gone although they can
	// still be seen.
	removed map[types.UID]sets.Set[types.UID]
}

func newSpecials(claims resourceinformers.ResourceClaimInformer, profile string) (*specials, error) {
	s := &specials{
		claims: claims.Informer().GetIndexer(), index: "kerf.dev/special-claims-" + profile,
		named: map[types.UID]string{}, unsettled: map[types.UID]string{}, removed: map[types.UID]sets.Set[types.UID]{},
	}
	if err := claims.Informer().AddIndexers(cache.Indexers{s.index: specialKeys}); err != nil {
		return nil, fmt.Errorf("add index of special claims by pod: %w", err)
	}
	return s, nil
}

func specialKeys(obj any) ([]string, error) {
	c, ok := obj.(*resourceapi.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("got %T, want a claim", obj)
	}
	if owner := claim.MarkedFor(c); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// of returns the special claims of a pod, as the assume cache has them. One that others
// use is not for the pod to use or to remove, unless its status says so.
func (s *specials) of(pod *v1.Pod, tracker fwk.ResourceClaimTracker) ([]*resourceapi.ResourceClaim, error) {
	objs, err := s.claims.ByIndex(s.index, string(pod.UID))
	if err != nil {
		return nil, fmt.Errorf("look up the special claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.forgetRemoved(pod.UID, objs)
	var claims []*resourceapi.ResourceClaim
	for _, obj := range objs {
		seen, ok := obj.(*resourceapi.ResourceClaim)
		if !ok || !isSpecialOf(seen, pod) || s.isRemoved(pod.UID, seen.UID) {
			continue
		}
		c, err := tracker.Get(seen.Namespace, seen.Name)
		if err != nil || c.UID != seen.UID {
			continue // one of the two has yet to learn of it
		}
		if claim.UsedByOthers(c, pod) && c.Name != claim.SpecialNamed(pod) {
			continue
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// nameIn returns the special claim that the status of the pod names, or may name by
// now; empty where there is none.
func (s *specials) nameIn(pod *v1.Pod) string {
	if named := claim.SpecialNamed(pod); named != "" {
		return named
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.named[pod.UID]
}

func (s *specials) setNamed(pod types.UID, claim string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.named[pod] = claim
}

func (s *specials) setUnsettled(pod types.UID, claim string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.unsettled[pod] = claim
}

// isUnsettled returns the name of the claim.
func (s *specials) isUnsettled(pod types.UID) (string, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	claim, ok := s.unsettled[pod]
	return claim, ok
}

func (s *specials) settle(pod types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.unsettled, pod)
}

// forget drops a pod that is gone and reports whether it was unsettled.
func (s *specials) forget(pod types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, unsettled := s.unsettled[pod]
	delete(s.named, pod)
	delete(s.unsettled, pod)
	delete(s.removed, pod)
	return unsettled
}

// setRemoved notes that a special claim is gone, which can still be seen.
func (s *specials) setRemoved(pod *v1.Pod, claim string) error {
	obj, exists, err := s.claims.GetByKey(pod.Namespace + "/" + claim)
	if err != nil {
		return fmt.Errorf("look up claim %s/%s: %w", pod.Namespace, claim, err)
	}
	seen, ok := obj.(*resourceapi.ResourceClaim)
	if !exists || !ok {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.removed[pod.UID] == nil {
		s.removed[pod.UID] = sets.New[types.UID]()
	}
	s.removed[pod.UID].Insert(seen.UID)
	return nil
}

func (s *specials) isRemoved(pod, claim types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.removed[pod].Has(claim)
}

// forgetRemoved drops what cannot be seen any more. What comes into sight later than
// its end is used by mistake, and missed when the allocation is written.
func (s *specials) forgetRemoved(pod types.UID, seen []any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for uid := range s.removed[pod] {
		if !slices.ContainsFunc(seen, func(obj any) bool {
			claim, ok := obj.(*resourceapi.ResourceClaim)
			return ok && claim.UID == uid
		}) {
			s.removed[pod].Delete(uid)
		}
	}
	if len(s.removed[pod]) == 0 {
		delete(s.removed, pod)
	}
}
