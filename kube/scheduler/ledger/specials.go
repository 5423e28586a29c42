// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
)

// Specials finds special claims by pod, and remembers what the API server may not
// have told yet.
type Specials struct {
	Claims cache.Indexer
	Index  string

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

func newSpecials(claims resourceinformers.ResourceClaimInformer, profile string) (*Specials, error) {
	s := &Specials{
		Claims: claims.Informer().GetIndexer(), Index: "kerf.dev/special-claims-" + profile,
		named: map[types.UID]string{}, unsettled: map[types.UID]string{}, removed: map[types.UID]sets.Set[types.UID]{},
	}
	if err := claims.Informer().AddIndexers(cache.Indexers{s.Index: specialKeys}); err != nil {
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

// Of returns the special claims of a pod, as the assume cache has them. One that others
// use is not for the pod to use or to remove, unless its status says so.
func (s *Specials) Of(pod *v1.Pod, tracker fwk.ResourceClaimTracker) ([]*resourceapi.ResourceClaim, error) {
	objs, err := s.Claims.ByIndex(s.Index, string(pod.UID))
	if err != nil {
		return nil, fmt.Errorf("look up the special claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.forgetRemoved(pod.UID, objs)
	var claims []*resourceapi.ResourceClaim
	for _, obj := range objs {
		seen, ok := obj.(*resourceapi.ResourceClaim)
		if !ok || !claim.IsSpecialOf(pod, seen) || s.isRemoved(pod.UID, seen.UID) {
			continue
		}
		c, err := tracker.Get(seen.Namespace, seen.Name)
		if err != nil || c.UID != seen.UID {
			continue // one of the two has yet to learn of it
		}
		if claim.MayUseSpecial(pod, c) {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// NameIn returns the special claim that the status of the pod names, or may name by
// now; empty where there is none.
func (s *Specials) NameIn(pod *v1.Pod) string {
	if named := claim.SpecialNamed(pod); named != "" {
		return named
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.named[pod.UID]
}

// SetNamed notes that the status of the pod may name the claim from now on.
func (s *Specials) SetNamed(pod types.UID, claim string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.named[pod] = claim
}

// SetUnsettled notes that the claim may exist although it should not.
func (s *Specials) SetUnsettled(pod types.UID, claim string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.unsettled[pod] = claim
}

// IsUnsettled returns the name of the claim.
func (s *Specials) IsUnsettled(pod types.UID) (string, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	claim, ok := s.unsettled[pod]
	return claim, ok
}

// Settle notes that it does not exist, for sure.
func (s *Specials) Settle(pod types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.unsettled, pod)
}

// Forget drops a pod that is gone and reports whether it was unsettled.
func (s *Specials) Forget(pod types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, unsettled := s.unsettled[pod]
	delete(s.named, pod)
	delete(s.unsettled, pod)
	delete(s.removed, pod)
	return unsettled
}

// SetRemoved notes that a special claim is gone, which can still be seen.
func (s *Specials) SetRemoved(pod *v1.Pod, claim string) error {
	obj, exists, err := s.Claims.GetByKey(pod.Namespace + "/" + claim)
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

func (s *Specials) isRemoved(pod, claim types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.removed[pod].Has(claim)
}

// forgetRemoved drops what cannot be seen any more. What comes into sight later than
// its end is used by mistake, and missed when the allocation is written.
func (s *Specials) forgetRemoved(pod types.UID, seen []any) {
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
