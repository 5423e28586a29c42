// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// heldRequests keeps requests for one object from an API server that answers all
// others. (A reactor of the fake client cannot: all requests wait for it.)
type heldRequests struct {
	kubernetes.Interface
	// name is of whose object, and verb of what is done to it.
	verb, name string
	// arrived is closed when there is one.
	arrived chan struct{}
	once    sync.Once
	answer  chan struct{}
}

// holdRequests has the plugin wait for answers to such requests until release.
func (r *rig) holdRequests(verb, name string) *heldRequests {
	h := &heldRequests{Interface: r.plugin.writer.Client, verb: verb, name: name, arrived: make(chan struct{}), answer: make(chan struct{})}
	r.reach(h)
	return h
}

func (h *heldRequests) release() { close(h.answer) }

func (h *heldRequests) pass(ctx context.Context, verb, name string) error {
	if verb != h.verb || name != h.name {
		return nil
	}
	h.once.Do(func() { close(h.arrived) })
	select {
	case <-h.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *heldRequests) CoreV1() coreclient.CoreV1Interface { return heldCore{h.Interface.CoreV1(), h} }

func (h *heldRequests) ResourceV1() resourceclient.ResourceV1Interface {
	return heldResource{h.Interface.ResourceV1(), h}
}

type heldCore struct {
	coreclient.CoreV1Interface
	held *heldRequests
}

func (c heldCore) Pods(namespace string) coreclient.PodInterface {
	return heldPods{c.CoreV1Interface.Pods(namespace), c.held}
}

type heldPods struct {
	coreclient.PodInterface
	held *heldRequests
}

func (p heldPods) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.Pod, error) {
	if err := p.held.pass(ctx, "get pod", name); err != nil {
		return nil, err
	}
	return p.PodInterface.Get(ctx, name, options)
}

type heldResource struct {
	resourceclient.ResourceV1Interface
	held *heldRequests
}

func (c heldResource) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return heldClaims{c.ResourceV1Interface.ResourceClaims(namespace), c.held}
}

type heldClaims struct {
	resourceclient.ResourceClaimInterface
	held *heldRequests
}

func (c heldClaims) Get(ctx context.Context, name string, options metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	if err := c.held.pass(ctx, "get claim", name); err != nil {
		return nil, err
	}
	return c.ResourceClaimInterface.Get(ctx, name, options)
}

func (c heldClaims) UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, options metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	if err := c.held.pass(ctx, "update status", claim.Name); err != nil {
		return nil, err
	}
	return c.ResourceClaimInterface.UpdateStatus(ctx, claim, options)
}
