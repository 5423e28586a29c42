// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// specialClaims makes the claims that serve extended resources, and removes them.
type specialClaims struct {
	gates    gates
	client   kubernetes.Interface
	manager  fwk.SharedDRAManager
	clock    clock.Clock
	users    *claimUsers
	writer   *writer
	bindings *bindings
	watch    *claimWatch
	failures *failures
	specials *specials
	underWay *underWay
	chores   *chores
	denials  *pauses
}
