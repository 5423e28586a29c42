// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// TestStrays: a second claim for a pod that is on its node already is removed as soon as
// it is seen, whichever of the two is the older, and that of a pod which needs none.
func TestStrays(t *testing.T) {
	onNode := func(name, c string) *v1.Pod {
		pod := podOf(name, container("a", gpu+"=1"))
		pod.UID, pod.Spec.NodeName = types.UID("uid-"+name), "n1"
		if c != "" {
			pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: c, RequestMappings: claim.DemandFor(pod, gpu, "gpu").Mappings}
		}
		return pod
	}
	served, byPlugin, foreign := onNode("served", "used"), onNode("by-plugin", ""), onNode("foreign", "theirs")
	foreign.Spec.SchedulerName = "another"
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 6)...), served, byPlugin, foreign,
		madeFor(served, "early", "gpu", "n1", "g-0", 2), madeFor(served, "used", "gpu", "n1", "g-1", 1),
		madeFor(foreign, "theirs", "gpu", "n1", "g-2", 1), madeFor(foreign, "theirs-too", "gpu", "n1", "g-3", 1))
	names := func() string {
		var names []string
		for _, c := range r.api.claims(t) {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := names(); got != "early theirs theirs-too used" {
		t.Fatalf("claims %s: a scheduler that does not schedule has removed some", got)
	}
	// The first pod makes it the one that schedules.
	r.cycle(podOf("p", container("a"))).preFilter()
	r.eventually("the stray is gone", func() bool { return names() == "theirs theirs-too used" })

	r.addClaims(madeFor(served, "late", "gpu", "n1", "g-4", 0), madeFor(byPlugin, "needless", "gpu", "n1", "g-5", 0))
	r.eventually("the strays are gone", func() bool { return names() == "theirs theirs-too used" })
	if got := r.api.claim(t, "used"); len(devicesOf(got)) != 1 {
		t.Errorf("the claim in use has lost its device: %v", got.Status)
	}
}

// addClaims has claims appear that others have made.
func (r *rig) addClaims(claims ...*resourceapi.ResourceClaim) {
	r.t.Helper()
	r.api.mutex.Lock() // The scheduler may be writing.
	for _, claim := range claims {
		r.api.stamp(claim)
	}
	r.api.mutex.Unlock()
	for _, claim := range claims {
		if err := r.api.client.Tracker().Create(claimResource, claim, claim.Namespace); err != nil {
			r.t.Fatal(err)
		}
	}
}

// bound has another scheduler put the pod on a node.
func (r *rig) bound(pod *v1.Pod, node string) {
	r.t.Helper()
	r.api.mutex.Lock()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	r.api.stamp(pod)
	r.api.mutex.Unlock()
	if err := r.api.client.Tracker().Update(podResource, pod, pod.Namespace); err != nil {
		r.t.Fatal(err)
	}
}

// TestStrayOfPodBoundLater: the claim is seen first, and removing it fails at first.
func TestStrayOfPodBoundLater(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod, madeFor(pod, "theirs", "gpu", "n1", "g-0", 1))
	refused := make(chan struct{})
	r.api.onWrite(func(clienttesting.Action) error {
		select {
		case <-refused:
			return nil
		default:
			close(refused)
			return errTimeout
		}
	}, nil)
	r.cycle(podOf("q", container("a"))).preFilter()
	r.bound(pod, "n2")
	r.eventually("the claim is gone", func() bool { return len(r.api.claims(t)) == 0 })
}

// TestClaimsThatLookLikeStrays are in use, or another pod's.
func TestClaimsThatLookLikeStrays(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	pod.Spec.NodeName = "n1"
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "made", ResourceClaimTemplateName: new("t")}, {Name: "named", ResourceClaimName: new("named")}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: new("made")}}
	former := pod.DeepCopy()
	former.UID = "former"
	made, named := madeFor(pod, "made", "gpu", "n1", "g-0", 1), madeFor(pod, "named", "gpu", "n1", "g-1", 1)
	made.Annotations[resourceapi.PodResourceClaimAnnotation] = "made"
	shared := madeFor(pod, "shared", "gpu", "n1", "g-2", 1)
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "q", UID: "uid-q"})
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 6)...), pod, made, named, shared, madeFor(former, "former", "gpu", "n1", "g-3", 1))
	r.cycle(podOf("q", container("a"))).preFilter()
	// The worker goes through pods in their order, so it has seen all that came before
	// when this one is gone.
	last := podOf("z", container("a", gpu+"=1"))
	last.UID, last.Spec.NodeName = "uid-z", "n1"
	if err := r.api.client.Tracker().Create(podResource, r.api.stamp(last), "ns"); err != nil {
		t.Fatal(err)
	}
	r.addClaims(madeFor(last, "stray", "gpu", "n1", "g-4", 1))
	r.eventually("the stray is gone", func() bool { return len(r.api.specialClaims(t, last)) == 0 })
	for _, claim := range r.api.claims(t) {
		if claim.DeletionTimestamp != nil || len(devicesOf(claim)) != 1 {
			t.Errorf("claim %s was removed: %v", claim.Name, claim.Status)
		}
	}
	if got := len(r.api.claims(t)); got != 4 {
		t.Errorf("got %d claims, want 4", got)
	}
}

// TestUnsettledAndBoundElsewhere: an attempt could not remove its claim, and another
// scheduler binds the pod. Nothing stays held for it.
func TestUnsettledAndBoundElsewhere(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	api := newAPIServer(pod, mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...))
	var unlinked atomic.Bool
	link := func(clienttesting.Action) error {
		if unlinked.Load() {
			return errTimeout
		}
		return nil
	}
	api.client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := link(a)
		return err != nil, nil, err
	})
	api.onWrite(link, func(a clienttesting.Action) error {
		unlinked.Store(a.Matches("update", "resourceclaims/status") || unlinked.Load())
		return link(a)
	})
	r := newRigOn(t, "", api)
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	wantError(c, c.preBind("n1"), "timed out")
	c.unreserve("n1")
	api.onWrite(nil, nil)
	unlinked.Store(false)
	r.bound(pod, "n2")
	r.eventually("nothing is held", func() bool {
		_, unsettled := r.plugin.ledger.Specials.IsUnsettled(pod.UID)
		return len(api.claims(t)) == 0 && !unsettled && r.manager.ResourceClaims().GetPendingAllocation(podclaim.PlaceholderUID(pod.UID)) == nil
	})
}

// TestBoundUnseen: the pod was bound, the reply got lost, and the informer does not tell.
// Whatever the next attempt comes to, the pod keeps its claim.
func TestBoundUnseen(t *testing.T) {
	for _, what := range []string{"no node is left", "a newer class serves"} {
		t.Run(what, func(t *testing.T) {
			pod := podOf("p", container("a", gpu+"=1"))
			r := newRig(t, "", mappedClass("gpu-a", 1, gpu, "g"), newSlice("n1", gpus("g", 2)...), newSlice("n2", gpus("g", 2)...), pod)
			c := r.cycle(pod)
			c.placeOn(nodeOffering("n1"))
			r.succeed("PreBind", c.preBind("n1"))
			r.succeed("bind", c.bindPod("n1"))
			c.unreserve("n1")
			before := r.api.claims(t)[0]
			r.seen(before)
			if what == "a newer class serves" {
				(&stage{t: t, api: r.api, r: r}).replaceClass()
			}
			c = r.cycle(pod) // as it was before
			r.succeed("PreFilter", c.preFilter())
			if got := c.filterOn(nodeOffering("n2")); got.IsSuccess() {
				r.succeed("Reserve", c.reserve("n2"))
				wantError(c, c.preBind("n2"), "in use")
				c.unreserve("n2")
			} else {
				if _, got := c.plugin.PostFilter(c.ctx, c.state, c.pod, nil); got.Code() != fwk.UnschedulableAndUnresolvable {
					t.Errorf("PostFilter: got %s: %s", got.Code(), got.Message())
				}
				r.idle()
			}
			claims := r.api.claims(t)
			if len(claims) != 1 || claims[0].UID != before.UID || len(devicesOf(claims[0])) != 1 {
				t.Errorf("got claims %v, want that of the pod on n1 as it was", claims)
			}
		})
	}
}

// TestBoundElsewhereWhileNaming: a pod on a node is not told to wait for a claim.
func TestBoundElsewhereWhileNaming(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod)
	r.api.onWrite(func(a clienttesting.Action) error {
		if a.Matches("patch", "pods/status") {
			r.bound(r.api.pod(t, "p"), "n2")
		}
		return nil
	}, nil)
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	wantError(c, c.preBind("n1"), "it is on node n2 already")
	c.unreserve("n1")
	if status := r.api.pod(t, "p").Status.ExtendedResourceClaimStatus; status != nil {
		t.Errorf("the pod on n2 waits for claim %s", status.ResourceClaimName)
	}
	r.eventually("the claim is gone", func() bool { return len(r.api.claims(t)) == 0 })
}
