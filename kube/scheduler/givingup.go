// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// givingUp is an allocation to be given up for a pod, or for a group if pod is nil. It
// happens some time after that was decided, so the reasons must still hold then.
type givingUp struct {
	pl       *Plugin
	claim    *resourceapi.ResourceClaim
	broken   bool
	tainted  bool
	pod      *v1.Pod
	consumer types.UID
}

// do gives the allocation up. A pod that may run with the claim, unknown to the
// informer, keeps it. Nothing is left to be done if the claim has become another.
func (g *givingUp) do(ctx context.Context) error {
	if g.pod != nil {
		current, err := g.pl.writer.Current(ctx, g.pod)
		if err != nil {
			return fmt.Errorf("claim %s stays allocated as long as nobody can tell whether its pod was bound: %w", podclaim.NameOf(g.claim), err)
		}
		if current != nil && current.Spec.NodeName != "" {
			klog.FromContext(ctx).Info("the pod is on a node already and keeps its claim", "pod", klog.KObj(g.pod), "resourceclaim", klog.KObj(g.claim))
			return nil
		}
	}
	pc := &podclaim.Claim{Claim: g.claim}
	_, err := g.pl.writer.DeallocateWhile(ctx, pc, func(now *resourceapi.ResourceClaim) error {
		if !g.holds(now) {
			g.pl.writer.Observe(ctx, pc, now)
			return errOver
		}
		return nil
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errOver) {
		return nil
	}
	return err
}

// errOver says that the reasons to give a claim up do not hold any more.
var errOver = errors.New("there is no reason any more to give the claim up")

// holds tells whether the claim is still to be given up.
func (g *givingUp) holds(now *resourceapi.ResourceClaim) bool {
	return now.UID == g.claim.UID && now.DeletionTimestamp == nil &&
		now.Status.Allocation != nil && podclaim.SameAllocation(now.Status.Allocation, g.claim.Status.Allocation) &&
		claim.ReservedForNobodyBut(now, g.consumer) &&
		(!g.broken && !g.tainted || g.broken && g.pl.bindings.BrokenBinding(now, g.pl.bindings.Clock.Now()) != nil || g.tainted && g.stillTainted(now))
}

func (g *givingUp) stillTainted(now *resourceapi.ResourceClaim) bool {
	tainted, err := g.pl.taints.Joinable(now, g.pl.feed.Latest())
	return tainted != nil || err != nil
}
