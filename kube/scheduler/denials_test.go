// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

const (
	counted      = "count/resourceclaims.resource.k8s.io"
	notMade      = "the claim for the extended resources of the pod cannot be made: "
	overQuota    = "exceeded quota: q, requested: " + counted + "=1, used: " + counted + "=1, limited: " + counted + "=1"
	overQuotaFor = notMade + overQuota + "; delete claims or their pods, or have the quota raised"
)

// deniedRig has a pod whose special claim is answered with an error.
func deniedRig(t *testing.T, answer error) (*rig, *v1.Pod) {
	t.Helper()
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), pod)
	r.answerCreations(answer)
	return r, pod
}

// answerCreations has the API server answer the creation of claims with an error, nil for
// none.
func (r *rig) answerCreations(answer error) {
	r.api.mutex.Lock()
	defer r.api.mutex.Unlock()
	r.api.before = func(action clienttesting.Action) error {
		if action.GetVerb() == "create" && action.GetResource() == claimResource {
			return answer
		}
		return nil
	}
}

func (r *rig) creations() int {
	n := 0
	for _, action := range r.api.client.Actions() {
		if action.GetVerb() == "create" && action.GetResource() == claimResource {
			n++
		}
	}
	return n
}

func forbidden(pod *v1.Pod, why string) error {
	return apierrors.NewForbidden(claimResource.GroupResource(), podclaim.SpecialName(pod), errors.New(why))
}

// deny has an attempt for the pod end in PreBind.
func (r *rig) deny(pod *v1.Pod, want string) {
	r.t.Helper()
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	if got := c.preBind("n1"); got.Code() != fwk.Unschedulable || got.Message() != want {
		r.t.Fatalf("PreBind: got %s: %q, want %q", got.Code(), got.Message(), want)
	}
	c.unreserve("n1")
}

// denied returns what a new attempt for the pod is told on the node, empty where it fits.
func (r *rig) denied(pod *v1.Pod) string {
	r.t.Helper()
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	status := c.filterOn(nodeOffering("n1"))
	if !status.IsSuccess() && status.Code() != fwk.UnschedulableAndUnresolvable {
		r.t.Fatalf("Filter: got %s: %q", status.Code(), status.Message())
	}
	return status.Message()
}

// TestDeniedByQuota: the pod is told at once, and its next attempt does not ask again on
// a node where it needs the claim. The pauses grow although each attempt is reserved.
func TestDeniedByQuota(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r, pod := deniedRig(t, forbidden(pod, overQuota))
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		length := time.Duration(seconds) * time.Second
		r.deny(pod, overQuotaFor)
		r.clock.Step(length - 1)
		if got := r.denied(pod); got != overQuotaFor || r.activated.count() != i {
			t.Fatalf("pause %d of %s ended early: %d activations, told %q", i+1, length, r.activated.count(), got)
		}
		r.clock.Step(1)
		if got := r.denied(pod); got != "" || r.activated.count() != i+1 {
			t.Fatalf("pause %d of %s: %d activations, told %q", i+1, length, r.activated.count(), got)
		}
	}
	if got := r.creations(); got != 11 {
		t.Errorf("asked %d times for the claim, want 11", got)
	}
	r.answerCreations(nil)
	r.cycle(pod).bindOn(nodeOffering("n1"))
	if r.plugin.ledger.Denials.Times(pod.UID) != 0 {
		t.Error("the pause is kept although the claim was made")
	}
}

// TestDeniedIsTriedAgain as soon as the framework has told the pod: where a device plugin
// serves the resource no claim is needed.
func TestDeniedIsTriedAgain(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r, pod := deniedRig(t, forbidden(pod, overQuota))
	r.deny(pod, overQuotaFor)
	told := pod.DeepCopy()
	told.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: overQuotaFor}}
	if _, err := r.api.client.CoreV1().Pods("ns").UpdateStatus(r.ctx, told, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod is activated", func() bool { return r.activated.count() == 1 })
	if got := r.denied(told); got != overQuotaFor {
		t.Errorf("where devices serve: told %q", got)
	}
	r.cycle(told).bindOn(nodeOffering("n2", gpu+"=1"))
	if got := r.creations(); got != 1 {
		t.Errorf("asked %d times for the claim, want once", got)
	}
}

// TestDeniedWithOtherClass: with another question another answer may come.
func TestDeniedWithOtherClass(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r, pod := deniedRig(t, forbidden(pod, overQuota))
	r.deny(pod, overQuotaFor)
	if _, err := r.api.client.ResourceV1().DeviceClasses().Create(r.ctx, mappedClass("newer", 2, gpu, "g"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the class arrives", func() bool {
		_, err := r.manager.DeviceClasses().Get("newer")
		return err == nil
	})
	if got := r.denied(pod); got != "" {
		t.Errorf("told %q", got)
	}
}

// TestQuotaHastens: the pod comes back when its quota has room, and not for less.
func TestQuotaHastens(t *testing.T) {
	quota := func(name, used, hard string) *v1.ResourceQuota {
		q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		q.Status.Hard = v1.ResourceList{counted: resource.MustParse(hard), "pods": resource.MustParse("0")}
		q.Status.Used = v1.ResourceList{counted: resource.MustParse(used), "pods": resource.MustParse("7")}
		return q
	}
	for name, tc := range map[string]struct {
		change  *v1.ResourceQuota
		deleted string
		hastens bool
	}{
		"usage falls":           {change: quota("q", "0", "1"), hastens: true},
		"the limit is raised":   {change: quota("q", "1", "2"), hastens: true},
		"the limit is gone":     {change: &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}, hastens: true},
		"the quota is gone":     {deleted: "q", hastens: true},
		"both are raised":       {change: quota("q", "2", "2")},
		"another quota's usage": {change: quota("other", "0", "1")},
		"another quota is gone": {deleted: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("p", container("a", gpu+"=1"))
			r, pod := deniedRig(t, forbidden(pod, overQuota))
			quotas := r.api.client.CoreV1().ResourceQuotas("ns")
			for _, q := range []*v1.ResourceQuota{quota("q", "1", "1"), quota("other", "1", "1")} {
				if _, err := quotas.Create(r.ctx, q, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, seconds := range []int{1, 2, 4, 8, 16} {
				r.deny(pod, overQuotaFor)
				r.clock.Step(time.Duration(seconds) * time.Second)
			}
			before := r.activated.count()
			r.deny(pod, overQuotaFor) // 32 seconds
			r.clock.Step(5 * time.Second)
			r.eventually("quotas are watched", func() bool { return r.quotaWatched() })
			var err error
			if tc.deleted != "" {
				err = quotas.Delete(r.ctx, tc.deleted, metav1.DeleteOptions{})
			} else {
				_, err = quotas.Update(r.ctx, tc.change, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			r.quotasSeen()
			r.clock.Step(0)
			if got := r.denied(pod) == "" && r.activated.count() > before; got != tc.hastens {
				t.Errorf("comes back: %t, want %t", got, tc.hastens)
			}
			if !tc.hastens {
				return
			}
			r.deny(pod, overQuotaFor) // what the API server knows may be older
			r.clock.Step(8*time.Second - 1)
			if r.denied(pod) == "" {
				t.Error("the next pause is shorter than 8 seconds")
			}
			r.clock.Step(1)
			if got := r.denied(pod); got != "" {
				t.Errorf("the next pause is longer than 8 seconds: %q", got)
			}
		})
	}
}

// quotasSeen waits until the plugin knows what has happened to quotas: one that comes
// last hastens a pod of its own.
func (r *rig) quotasSeen() {
	r.t.Helper()
	other := newPod("other")
	for range ledger.HastenedTimes + 1 {
		r.plugin.ledger.Denials.Lengthen(other, "", &special.Denial{Quota: "last"})
	}
	last := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "last"}}
	if _, err := r.api.client.CoreV1().ResourceQuotas("ns").Create(r.ctx, last, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the last quota arrives", func() bool {
		return r.plugin.ledger.Denials.Times(other.UID) == ledger.HastenedTimes
	})
}

func (r *rig) quotaWatched() bool {
	for _, action := range r.api.client.Actions() {
		if action.GetVerb() == "watch" && action.GetResource().Resource == "resourcequotas" {
			return true
		}
	}
	return false
}

// TestQuotasAreNotWatched as long as no quota is in the way: not every scheduler may.
func TestQuotasAreNotWatched(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=1"))
	r, pod := deniedRig(t, forbidden(pod, "no"))
	r.deny(pod, notMade+"no; have whoever refuses it permit it")
	if r.plugin.quotas.Active() {
		t.Error("quotas are watched")
	}
}

// TestDenialOf tells answers from errors that may be over the next time.
func TestDenialOf(t *testing.T) {
	const prefix = `resourceclaims.resource.k8s.io "c" is forbidden: `
	const name = "exceeded quota: q, requested: a=1k,b=2, used: a=1,b=1, limited: a=1,b=1"
	for _, tc := range []struct {
		code    int32
		message string
		// want is empty for an error, quota for other answers.
		want, quota string
	}{
		{http.StatusForbidden, prefix + name, notMade + name + "; delete claims or their pods, or have the quota raised", "q"},
		{http.StatusForbidden, prefix + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", notMade + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no; have whoever refuses it permit it", ""},
		{http.StatusUnprocessableEntity, "no good", notMade + "no good; have whoever refuses it permit it", ""},
		{http.StatusBadRequest, `admission webhook "w" denied the request: ` + prefix + name, notMade + `admission webhook "w" denied the request: ` + prefix + name + "; have whoever refuses it permit it", ""},
		{http.StatusForbidden, prefix + strings.Repeat("ä", 400) + "\n", notMade + strings.Repeat("ä", 300) + "…; have whoever refuses it permit it", ""},
		{http.StatusTeapot, "tea\nno more", notMade + "tea…; have whoever refuses it permit it", ""},
		{http.StatusForbidden, prefix + "status unknown for quota: q, resources: a", "", ""},
		{http.StatusUnauthorized, "who?", "", ""},
		{http.StatusNotFound, "no namespace", "", ""},
		{http.StatusRequestTimeout, "slow", "", ""},
		{http.StatusConflict, "again", "", ""},
		{http.StatusTooManyRequests, "later", "", ""},
		{http.StatusInternalServerError, "failed calling webhook", "", ""},
		{http.StatusGatewayTimeout, "slow", "", ""},
	} {
		reason := metav1.StatusReason("")
		if tc.code == http.StatusForbidden {
			reason = metav1.StatusReasonForbidden
		}
		err := fmt.Errorf("wrapped: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: tc.code, Reason: reason, Message: tc.message}})
		got := special.DenialOf(err, "c")
		switch {
		case tc.want == "" && got != nil:
			t.Errorf("%d %s: got %q, want none", tc.code, tc.message, got)
		case tc.want != "" && (got == nil || got.Error() != tc.want || got.Quota != tc.quota):
			t.Errorf("%d %s: got %v, want %q", tc.code, tc.message, got, tc.want)
		}
	}
	if got := special.DenialOf(errors.New("connection refused"), "c"); got != nil {
		t.Errorf("connection refused: got %q", got)
	}
}

// TestErrorIsNoDenial: what may be over the next time is left to the framework's backoff.
func TestErrorIsNoDenial(t *testing.T) {
	r, pod := deniedRig(t, apierrors.NewInternalError(errors.New("failed calling webhook")))
	c := r.cycle(pod)
	c.placeOn(nodeOffering("n1"))
	if got := c.preBind("n1"); got.Code() != fwk.Error {
		t.Errorf("PreBind: got %s: %q, want an error", got.Code(), got.Message())
	}
	c.unreserve("n1")
	if got := r.denied(pod); got != "" {
		t.Errorf("the next attempt is told %q", got)
	}
}
