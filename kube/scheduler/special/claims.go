// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

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

// Claims makes the claims that serve extended resources, and removes them.
type Claims struct {
	// Enabled is whether devices serve extended resources.
	Enabled  bool
	Client   kubernetes.Interface
	Manager  fwk.SharedDRAManager
	Clock    clock.Clock
	Users    *ledger.Users
	Writer   *podclaim.Writer
	Bindings *podclaim.Bindings
	Watch    *ledger.Watch
	Failures *ledger.Failures
	Specials *ledger.Specials
	UnderWay *ledger.UnderWay
	Chores   *background.Chores
	Denials  *ledger.Pauses
}

// QuotaChanged hastens the pods that wait for the quota, where it has room for them or is
// gone.
func (s *Claims) QuotaChanged(quota *v1.ResourceQuota, gone bool) {
	s.Denials.Hasten(quota.Namespace, func(why error) bool {
		denied := (*Denial)(nil)
		return errors.As(why, &denied) && denied.Quota == quota.Name && (gone || denied.mayBeOver(quota))
	})
}
