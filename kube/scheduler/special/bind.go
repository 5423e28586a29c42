// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Prepare removes special claims of the pod that are not used, and creates
// the one that is, where it does not exist yet.
func (s *Claims) Prepare(ctx context.Context, pc *podclaim.Claim, unused []*resourceapi.ResourceClaim, pod *v1.Pod) error {
	if err := s.CheckClasses(pc, pod); err != nil {
		return err
	}
	for _, claim := range unused {
		if err := s.removeSpecial(ctx, pod, claim.Name); err != nil {
			return err
		}
	}
	if pc == nil || !pc.Special.InMemory {
		return nil
	}
	return s.createSpecial(ctx, pc, pod)
}

// CheckClasses makes sure that the classes still serve what they did in PreFilter.
func (s *Claims) CheckClasses(pc *podclaim.Claim, pod *v1.Pod) error {
	if pc == nil {
		return nil
	}
	classes, err := s.Manager.DeviceClasses().List()
	if err != nil {
		return fmt.Errorf("list device classes: %w", err)
	}
	for _, d := range pc.Special.Demands {
		class := claim.ClassServing(d.Resource, slices.Values(classes))
		switch {
		case class == nil:
			return fmt.Errorf("pod %s: no device class serves %s any more, class %s did", klog.KObj(pod), d.Resource, d.Class)
		case class.Name != d.Class:
			return fmt.Errorf("pod %s: device class %s serves %s by now, in place of %s", klog.KObj(pod), class.Name, d.Resource, d.Class)
		}
	}
	return nil
}

// createSpecial creates the claim. One of that name which is there already comes
// from an attempt whose reply got lost, or which another process made: it is used
// if it asks for the same and has no devices, and replaced otherwise.
func (s *Claims) createSpecial(ctx context.Context, pc *podclaim.Claim, pod *v1.Pod) error {
	pc.Special.Made = true
	claim := pc.Claim.DeepCopy()
	claim.UID = ""
	created, err := s.Client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = s.adoptSpecial(ctx, claim, pod)
	}
	countCreation(err)
	if denied := DenialOf(err, claim.Name); denied != nil {
		return denied
	}
	if err != nil {
		return fmt.Errorf("create claim %s for extended resources: %w", podclaim.NameOf(claim), err)
	}
	s.Denials.Forget(pod.UID)
	pc.Claim, pc.Special.InMemory = created, false
	return nil
}

func (s *Claims) adoptSpecial(ctx context.Context, wanted *resourceapi.ResourceClaim, pod *v1.Pod) (*resourceapi.ResourceClaim, error) {
	claims := s.Client.ResourceV1().ResourceClaims(wanted.Namespace)
	found, err := claims.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case !claim.IsSpecialOf(pod, found):
		return nil, errors.New("a claim of that name exists which was not made for the pod; delete it")
	case found.DeletionTimestamp == nil && found.Status.Allocation == nil && apiequality.Semantic.DeepEqual(found.Spec.Devices, wanted.Spec.Devices):
		return found, nil
	}
	if err := s.removeSpecial(ctx, pod, wanted.Name); err != nil {
		return nil, err
	}
	return claims.Create(ctx, wanted, metav1.CreateOptions{})
}

func countCreation(err error) {
	if schedmetrics.ResourceClaimCreatesTotal == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "failure"
	}
	schedmetrics.ResourceClaimCreatesTotal.WithLabelValues(result, "false", "", "Pod").Inc()
}

// Limits for what is only a matter of moments: that a claim which was created
// arrives at the informer, and from there at the assume cache, which tells nobody.
const (
	arrivalTimeout = 2 * time.Minute
	assumeInterval = time.Millisecond
	assumeTimeout  = 10 * time.Second
)

// Await waits until the assume cache knows the claim. Before that its devices
// are only held in memory.
func (s *Claims) Await(ctx context.Context, pc *podclaim.Claim) error {
	if pc == nil || !pc.Special.Made {
		return nil
	}
	changed, done := s.Watch.Wait([]*podclaim.Claim{pc})
	defer done()
	deadline := s.Clock.Now().Add(arrivalTimeout)
	for {
		if _, err := s.Watch.Newest(pc.Claim); err == nil {
			break
		}
		if err := ledger.Sleep(ctx, s.Clock, changed, deadline); err != nil {
			return err
		}
		if !s.Clock.Now().Before(deadline) {
			return fmt.Errorf("claim %s was created, but did not arrive within %s", podclaim.NameOf(pc.Claim), arrivalTimeout)
		}
	}
	return wait.PollUntilContextTimeout(ctx, assumeInterval, assumeTimeout, true, func(context.Context) (bool, error) {
		// Any other error means that it has arrived, in a newer version.
		err := s.Manager.ResourceClaims().AssumeClaimAfterAPICall(pc.Claim)
		return !errors.Is(err, assumecache.ErrNotFound), nil
	})
}

// errInUse is the reason why a special claim is not removed; errBound is that in case it
// is its pod that uses it.
var (
	errInUse = errors.New("it is in use")
	errBound = fmt.Errorf("%w, its pod was bound", errInUse)
)

// removeSpecial gives the devices of a special claim of the pod up and removes it.
// It looks at claim and pod as they are now, and at nothing that was made for others.
func (s *Claims) removeSpecial(ctx context.Context, pod *v1.Pod, name string) error {
	if err := s.checkUnused(ctx, pod, name); err != nil {
		return fmt.Errorf("remove claim %s/%s, made for extended resources of the pod: %w", pod.Namespace, name, err)
	}
	claims := s.Client.ResourceV1().ResourceClaims(pod.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil || !claim.IsSpecialOf(pod, c) {
			return err
		}
		if !claim.ReservedForNobodyBut(c, pod.UID) {
			return fmt.Errorf("%w by somebody other than its pod", errInUse)
		}
		if c.Status.Allocation != nil {
			pc := &podclaim.Claim{Claim: c}
			if err := s.Writer.Deallocate(ctx, pc); err != nil {
				return err
			}
			c = pc.Claim
		}
		if i := slices.Index(c.Finalizers, resourceapi.Finalizer); i >= 0 {
			c = c.DeepCopy()
			c.Finalizers = slices.Delete(c.Finalizers, i, i+1)
			if c, err = claims.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if c.DeletionTimestamp != nil {
			return nil
		}
		klog.FromContext(ctx).V(5).Info("remove special claim", "resourceclaim", klog.KObj(c), "pod", klog.KObj(pod))
		return claims.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID}})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove claim %s/%s, made for extended resources of the pod: %w", pod.Namespace, name, err)
	}
	return nil
}

// checkUnused makes sure that the pod does not run with the special claim: it may have
// been bound although the reply said otherwise, and the informer may not tell yet.
func (s *Claims) checkUnused(ctx context.Context, pod *v1.Pod, claim string) error {
	current, err := s.Writer.Current(ctx, pod)
	if err != nil || current == nil {
		return err
	}
	status := current.Status.ExtendedResourceClaimStatus
	if current.Spec.NodeName != "" && status != nil && status.ResourceClaimName == claim {
		return fmt.Errorf("%w to node %s", errBound, current.Spec.NodeName)
	}
	return nil
}

// Withdraw removes the special claim that PreBind may have created, and
// reports whether it is gone for sure. If not its devices stay taken, until the next
// attempt removes it or the pod is gone.
func (s *Claims) Withdraw(ctx context.Context, pc *podclaim.Claim, pod *v1.Pod) bool {
	if pc.Special == nil || !pc.Special.Made {
		return true
	}
	if err := s.removeSpecial(ctx, pod, pc.Claim.Name); err != nil {
		klog.FromContext(ctx).Error(err, "unreserve", "resourceclaim", klog.KObj(pc.Claim), "pod", klog.KObj(pod))
		s.Specials.SetUnsettled(pod.UID, pc.Claim.Name)
		if !s.Users.Gone(pod.Namespace, pc.Consumer) {
			if err := s.BeginRemoval(pod, []string{pc.Claim.Name}); err != nil {
				klog.FromContext(ctx).Error(err, "unreserve: the next attempt removes the claim", "resourceclaim", klog.KObj(pc.Claim), "pod", klog.KObj(pod))
			}
			return false
		}
		// Nobody comes back for it. The claim goes with its owner.
	}
	s.Specials.Settle(pod.UID)
	pc.Touched, pc.Special.Made = false, false
	return true
}

// RemoveStray removes a special claim that a pod on a node does not use. An attempt may
// have left it, and its devices, to the next one, which does not come.
func (s *Claims) RemoveStray(ctx context.Context, pod *v1.Pod, claim string) error {
	if err := s.removeSpecial(ctx, pod, claim); err != nil {
		return err
	}
	if name, unsettled := s.Specials.IsUnsettled(pod.UID); unsettled && name == claim {
		s.settled(pod)
	}
	return nil
}

// settled drops what is remembered of a special claim that is gone for sure.
func (s *Claims) settled(pod *v1.Pod) {
	s.Specials.Settle(pod.UID)
	s.UnderWay.End(pod.UID)
	s.Manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(podclaim.PlaceholderUID(pod.UID), true)
}

// RemoveBlocking has special claims removed that are in the way of the pod, and returns
// the name of one, empty if there is none.
func (s *Claims) RemoveBlocking(of *Case, blocks bool) (string, error) {
	claims := slices.Clip(of.Left)
	if blocks {
		if of.Broken != nil {
			s.Failures.Add(podclaim.PlaceholderUID(of.Pod.UID), of.Broken.Devices)
		}
		claims = append(claims, of.Kept)
		of.Kept = nil
	}
	of.Left = nil
	if len(claims) == 0 {
		return "", nil
	}
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Name)
	}
	return podclaim.NameOf(claims[len(claims)-1]), s.BeginRemoval(of.Pod, names)
}

// BeginRemoval has special claims of a pod removed.
func (s *Claims) BeginRemoval(pod *v1.Pod, names []string) error {
	return s.Chores.Begin(podclaim.PlaceholderUID(pod.UID), func(ctx context.Context) error {
		for _, name := range names {
			switch err := s.RemoveStray(ctx, pod, name); {
			case errors.Is(err, errBound):
				return nil // nobody schedules the pod any more
			case err != nil:
				return err
			}
			if err := s.Specials.SetRemoved(pod, name); err != nil {
				return err
			}
		}
		return nil
	})
}
