// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/kube/scheduler/background"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// specialClaims makes the claims that serve extended resources, and removes them.
type specialClaims struct {
	// enabled is whether devices serve extended resources.
	enabled  bool
	client   kubernetes.Interface
	manager  fwk.SharedDRAManager
	clock    clock.Clock
	users    *ledger.Users
	writer   *podclaim.Writer
	bindings *podclaim.Bindings
	watch    *ledger.Watch
	failures *ledger.Failures
	specials *ledger.Specials
	underWay *ledger.UnderWay
	chores   *background.Chores
	denials  *ledger.Pauses
}

// quotaChanged hastens the pods that wait for the quota, where it has room for them or is
// gone.
func (s *specialClaims) quotaChanged(quota *v1.ResourceQuota, gone bool) {
	s.denials.Hasten(quota.Namespace, func(why error) bool {
		denied := (*denial)(nil)
		return errors.As(why, &denied) && denied.quota == quota.Name && (gone || denied.mayBeOver(quota))
	})
}
