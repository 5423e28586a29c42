// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/background"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// TestSlowAnswersDelayNobody: the API server does not answer a request that one pod
// needs before it can be scheduled. The scheduling thread goes on: another pod is
// placed. Then the answer comes, and with it the first pod.
func TestSlowAnswersDelayNobody(t *testing.T) {
	inTheWay := func(t *testing.T) (*rig, *v1.Pod) {
		pod := newPod("p", "c")
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), used("c", "n1", "d1"), newClaim("other"), pod), pod
	}
	for name, verb := range map[string]string{"look at the pod": "get pod", "deallocate": "update status"} {
		t.Run(name, func(t *testing.T) {
			r, pod := inTheWay(t)
			object := map[string]string{"get pod": "p", "update status": "c"}[verb]
			held := r.holdRequests(verb, object)
			c := r.cycle(pod)
			r.succeed("PreFilter", c.preFilter())
			c.filter("n2")
			_, got := r.plugin.PostFilter(r.ctx, c.state, c.pod, nil)
			if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "giving up the allocation of claim ns/c") {
				t.Fatalf("PostFilter: got %s: %s", got.Code(), got.Message())
			}
			<-held.arrived
			r.cycle(newPod("q", "other")).bind("n2")
			r.comesBack(pod, held, "claim ns/c is in the process of being deallocated")
			r.expect("c", nil, nil)
		})
	}
	t.Run("for a group", func(t *testing.T) {
		claim := used("c", "n1", "d1", "group")
		claim.Status.ReservedFor[0].APIGroup, claim.Status.ReservedFor[0].Resource = "scheduling.k8s.io", "podgroups"
		r, group := groupRig(t, nil, &schedulingapi.PodGroupResourceClaim{Name: "c", ResourceClaimName: new("c")}, func() *rig {
			return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), claim, newClaim("other"))
		})
		held := r.holdRequests("update status", "c")
		c := r.cycle(member("p", "c"))
		state := inGroup(c)
		r.succeed("PreFilter", c.preFilter())
		c.filter("n2")
		_, got := r.plugin.PodGroupPostFilter(r.ctx, state, groupInfo{group: group, pods: []*v1.Pod{c.pod}}, nil)
		if !strings.Contains(got.Message(), "giving up the allocation of claim ns/c") {
			t.Fatalf("PodGroupPostFilter: got %s: %s", got.Code(), got.Message())
		}
		<-held.arrived
		r.cycle(newPod("q", "other")).bind("n2")
		r.comesBack(c.pod, held, "claim ns/c is in the process of being deallocated")
		r.expect("c", nil, nil)
	})
}

// comesBack tries the pod while it is waited for the answer, which then comes.
func (r *rig) comesBack(pod *v1.Pod, held *heldRequests, reason string) {
	r.t.Helper()
	if got := r.cycle(pod).preFilter(); got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), reason) {
		r.t.Errorf("PreFilter: got %s: %s, want %q", got.Code(), got.Message(), reason)
	}
	held.release()
	r.eventually("the pod is brought back", func() bool { return r.activated.count() == 1 })
	r.idle()
}

// TestSlowRemovalDelaysNobody: what an attempt left has to be removed, and nobody answers.
func TestSlowRemovalDelaysNobody(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", newClass(), mappedClass("gpu-a", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), newSlice("n2", newDevice("d1")), newClaim("other"), pod)
	held := r.holdRequests("get claim", podclaim.SpecialName(pod))
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	var unlinked atomic.Bool
	link := func(clienttesting.Action) error {
		if unlinked.Load() {
			return errTimeout
		}
		return nil
	}
	r.api.client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return unlinked.Load(), nil, link(a)
	})
	r.api.onWrite(func(a clienttesting.Action) error {
		unlinked.Store(a.Matches("update", "resourceclaims/status"))
		return link(a)
	}, nil)
	wantError(c, c.preBind("n1"), "timed out")
	c.unreserve("n1")
	if _, unsettled := r.plugin.ledger.Specials.IsUnsettled(pod.UID); !unsettled {
		t.Fatal("the claim was removed")
	}
	r.api.onWrite(nil, nil)
	unlinked.Store(false)
	<-held.arrived
	r.cycle(newPod("q", "other")).bind("n2")
	r.comesBack(pod, held, "in the process of being removed")
	if claims := r.api.claims(t); len(claims) != 1 {
		t.Errorf("got claims %v, want that of the pod removed", claims)
	}
	// What was removed may still be in sight, and does not count.
	r.cycle(pod).placeOn(nodeOffering("n1"))
}

// TestReasonsAreLookedAtAgain: between the decision to give a claim up and the write
// something happens that ends the reason.
func TestReasonsAreLookedAtAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change        func(r *rig)
		wantDevices   []string
		wantConsumers []string
	}{
		"somebody else reserves it": {
			change: func(r *rig) {
				r.api.change(r.t, "c", func(c *resourceapi.ResourceClaim) {
					c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "q", UID: "uid-q"}}
				})
			},
			wantDevices: []string{"d1"}, wantConsumers: []string{"uid-q"},
		},
		"it is allocated anew": {
			change: func(r *rig) {
				r.api.change(r.t, "c", func(c *resourceapi.ResourceClaim) { *c = *allocated(c, "n2", "d2") })
			},
			wantDevices: []string{"d2"},
		},
		"it gets a label": {change: func(r *rig) {
			r.api.change(r.t, "c", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"a": "b"} })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), used("c", "n1", "d1"), pod)
			held := r.holdRequests("get pod", "p")
			c := r.cycle(pod)
			r.succeed("PreFilter", c.preFilter())
			c.filter("n2")
			r.plugin.PostFilter(r.ctx, c.state, c.pod, nil)
			<-held.arrived
			tc.change(r)
			held.release()
			r.idle()
			r.expect("c", tc.wantDevices, tc.wantConsumers)
		})
	}
}

// TestUnreserveAsksNobody: as long as nothing was written there is nothing to be undone
// at the API server, so the scheduling thread may call Unreserve.
func TestUnreserveAsksNobody(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	pod.Spec.ResourceClaims = newPod("p", "c").Spec.ResourceClaims
	r := newRig(t, "", newClass(), mappedClass("gpu-a", 1, gpu, "g"), newSlice("n1", gpus("g", 2)...), newClaim("c"), pod)
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	before := len(r.api.client.Actions())
	c.unreserve("n1")
	if asked := r.api.client.Actions()[before:]; len(asked) > 0 {
		t.Errorf("Unreserve asked for %v", asked)
	}
}

// TestChoresAreBounded: there is an end to what is remembered, and it ends with the
// plugin although nobody answers.
func TestChoresAreBounded(t *testing.T) {
	r := newRig(t, "")
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for i := range background.MaxChores {
		if err := r.plugin.chores.Begin(types.UID(fmt.Sprint(i)), hang); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.plugin.chores.Begin("one too many", hang); !errors.Is(err, background.ErrManyChores) {
		t.Errorf("got %v, want %v", err, background.ErrManyChores)
	}
	if err := r.plugin.chores.Begin("0", hang); err != nil {
		t.Errorf("got %v for what is being done already", err)
	}
}
