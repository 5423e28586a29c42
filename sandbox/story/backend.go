// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/scenario"
)

const (
	backendName = "sandbox"
	// limit bounds the wait for something that is bound to come.
	limit = 2 * time.Minute
)

// backend is a sandbox as a world for stories.
type backend struct {
	// ctx is the context of the one story that the backend is for: the verbs of
	// the language know nothing of contexts.
	ctx     context.Context
	sandbox *sandbox.Sandbox
	// settled is the state since the last change, nil if it is not known.
	settled *sandbox.Settlement
}

var _ scenario.Backend = &backend{}

func newBackend(ctx context.Context, s *sandbox.Sandbox) *backend {
	return &backend{ctx: ctx, sandbox: s}
}

func (b *backend) Name() string { return backendName }

func (b *backend) Settle() error {
	if b.settled != nil {
		return nil
	}
	settled, err := b.sandbox.Settle(b.ctx, limit)
	if err != nil {
		return err
	}
	if len(settled.Stuck) > 0 {
		return fmt.Errorf("stuck: %v", settled.Stuck)
	}
	b.settled = settled
	return nil
}

// State reads what there is, unless nothing has changed since it was read.
func (b *backend) State() (*scenario.State, error) {
	if b.settled != nil {
		return &scenario.State{Snapshot: &b.settled.State.Snapshot}, nil
	}
	state, err := b.sandbox.State(b.ctx)
	if err != nil {
		return nil, err
	}
	return &scenario.State{Snapshot: &state.Snapshot}, nil
}

// Reason is what a pending pod waits for, in the scheduler's words where it has
// any.
func (b *backend) Reason(namespace, name string) (string, error) {
	if err := b.Settle(); err != nil {
		return "", err
	}
	for _, p := range b.settled.Pending {
		if p.Pod.Namespace == namespace && p.Pod.Name == name {
			return p.Message, nil
		}
	}
	return "", fmt.Errorf("pod %s/%s is not pending", namespace, name)
}

// ReasonNow is the same at this moment, whatever moves.
func (b *backend) ReasonNow(namespace, name string) (string, error) {
	pending, err := b.sandbox.Pending(b.ctx)
	if err != nil {
		return "", err
	}
	for _, p := range pending {
		if p.Pod.Namespace == namespace && p.Pod.Name == name {
			return p.Message, nil
		}
	}
	return "it is not pending any more", nil
}

func (b *backend) Finish(namespace, pod string) error {
	b.settled = nil
	return b.sandbox.FinishPod(b.ctx, namespace, pod, 0)
}

// SetDevices writes status.devices of a claim. The time of conditions is now.
func (b *backend) SetDevices(claim *scenario.Claim) error {
	b.settled = nil
	for i := range claim.Status.Devices {
		for j := range claim.Status.Devices[i].Conditions {
			if c := &claim.Status.Devices[i].Conditions[j]; c.LastTransitionTime.IsZero() {
				c.LastTransitionTime = metav1.Now()
			}
		}
	}
	_, err := b.sandbox.Client().ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(b.ctx, claim, metav1.UpdateOptions{})
	return err
}
