// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// examineTaints finds out which allocated claims the pod must not join.
func (pl *Plugin) examineTaints(ctx context.Context, a *attempt, ext *extended) *fwk.Status {
	logger := klog.FromContext(ctx)
	for _, pc := range a.claims {
		if pc.Claim.Status.Allocation == nil {
			continue
		}
		var err error
		if pc.Tainted, err = pl.examineClaim(ctx, a, pc.Claim); err != nil {
			return failed(logger, err)
		}
	}
	if ext != nil && ext.Kept != nil && ext.Kept.Status.Allocation != nil {
		var err error
		if ext.Tainted, err = pl.examineClaim(ctx, a, ext.Kept); err != nil {
			return failed(logger, err)
		}
	}
	return nil
}

func (pl *Plugin) examineClaim(ctx context.Context, a *attempt, claim *resourceapi.ResourceClaim) (*podclaim.JoinError, error) {
	if a.snapshot == nil {
		var err error
		if a.snapshot, err = pl.feed.Snapshot(ctx); err != nil {
			return nil, err
		}
	}
	return pl.taints.Joinable(claim, a.snapshot)
}

// unusable says why the pod cannot use what is allocated to it, empty if it can.
// PostFilter gives that up if nobody else uses it.
func (s *cycleState) unusable() string {
	for _, pc := range s.claims {
		switch {
		case pc.Broken != nil:
			return pc.Broken.Error()
		case pc.Tainted != nil:
			return pc.Tainted.Error()
		}
	}
	switch ext := s.extended; {
	case ext == nil:
	case ext.Broken != nil:
		return ext.Broken.Error()
	case ext.Tainted != nil:
		return ext.Tainted.Error()
	}
	return ""
}
