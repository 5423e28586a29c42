// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// counting is a Matcher that counts what it evaluates. Expressions with the word
// "dear" take until they are stopped.
type counting struct {
	alloc.Matcher
	asked atomic.Int64
}

func (m *counting) Match(stop alloc.Stop, expression string, device *inventory.Device) (bool, uint64, error) {
	m.asked.Add(1)
	if strings.Contains(expression, "dear") {
		<-stop.Done()
		return false, 0, stop.Err()
	}
	return m.Matcher.Match(stop, expression, device)
}

// glanceRig has a pod that waits for a device of that profile. The dear ones of its
// claims come after the class, which is cheap.
func glanceRig(t *testing.T, profiles ...string) (*rig, *counting, func() fwk.QueueingHint) {
	t.Helper()
	r := newRig(t, "", newClass())
	m := &counting{Matcher: r.plugin.hints.matcher}
	r.plugin.hints.matcher = m
	var claims []string
	for i, profile := range profiles {
		name := fmt.Sprintf("c%d", i)
		claims = append(claims, name)
		if _, err := r.api.client.ResourceV1().ResourceClaims("ns").Create(r.ctx, wanting(name, profile), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.eventually("claim "+name+" arrives", func() bool {
			_, err := r.manager.ResourceClaims().Get("ns", name)
			return err == nil
		})
	}
	pod := newPod("p", claims...)
	slice := newSlice("n1", withProfile("d1", "small"))
	return r, m, func() fwk.QueueingHint {
		t.Helper()
		got, err := r.plugin.hints.afterSliceChange(klog.Background(), pod, nil, slice)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// TestGlanceOnDearExpressions: what takes too long may match, and is not evaluated
// again until it gets another chance, which comes later each time.
func TestGlanceOnDearExpressions(t *testing.T) {
	r, m, _ := glanceRig(t, "dear")
	claims := []*podclaim.Claim{{Claim: wanting("c", "dear")}}
	expression := claims[0].Claim.Spec.Devices.Requests[0].Exactly.Selectors
	look := func() {
		t.Helper()
		g, end := r.plugin.hints.glance()
		defer end()
		if !g.selects(expression, &inventory.Device{Spec: &resourceapi.Device{}}) {
			t.Error("got no match from a dear expression")
		}
	}
	r.plugin.hints.dear.limit = glanceTime
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		before := m.asked.Load()
		// On a busy machine the time of a glance may be nearly over when it looks.
		r.eventually("the expression is known to be dear", func() bool {
			look()
			return r.plugin.hints.dear.has(expression[0].CEL.Expression)
		})
		asked := m.asked.Load()
		if asked == before {
			t.Errorf("not evaluated again %s later", wait/2)
		}
		r.clock.Step(wait - 1)
		for range 3 {
			look()
		}
		if got := m.asked.Load(); got != asked {
			t.Errorf("evaluated again before %s", wait)
		}
		r.clock.Step(1)
	}
}

// TestGlanceAtDearSelectors: the hint for a pod with such a claim is to try it.
func TestGlanceAtDearSelectors(t *testing.T) {
	r, m, hint := glanceRig(t, "dear")
	r.plugin.hints.dear.note(dearOf(r), patience)
	for range 3 {
		if got := hint(); got != fwk.Queue {
			t.Errorf("got %s", got)
		}
	}
	if got := m.asked.Load(); got != 3 {
		t.Errorf("evaluated %d expressions, want the class's 3 times", got)
	}
}

// dearOf is the expression of the rig's claim.
func dearOf(r *rig) string {
	r.t.Helper()
	claim, err := r.manager.ResourceClaims().Get("ns", "c0")
	if err != nil {
		r.t.Fatal(err)
	}
	return claim.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression
}

// TestGlanceForgives: an expression that was held up once is a cheap one again, and
// those after a dear one are not held to be dear.
func TestGlanceForgives(t *testing.T) {
	r, _, _ := glanceRig(t)
	d := r.plugin.hints.dear
	d.limit = glanceTime
	d.note("cheap", glanceTime)
	if !d.has("cheap") {
		t.Fatal("what took as long as a glance is not dear")
	}
	r.clock.Step(firstDear)
	d.note("cheap", glanceTime/10)
	d.note("cheap", glanceTime)
	r.clock.Step(firstDear)
	if d.has("cheap") {
		t.Error("an evaluation that was fast did not count")
	}

	g, end := r.plugin.hints.glance()
	end() // the time is over
	class := newClass().Spec.Selectors
	if device := (&inventory.Device{Spec: &resourceapi.Device{}}); !g.selects(class, device) || d.has(class[0].CEL.Expression) {
		t.Error("when the time is over an expression has to match, and is not to blame")
	}
}

// TestGlanceOnCheapSelectors: they decide.
func TestGlanceOnCheapSelectors(t *testing.T) {
	for profile, want := range map[string]fwk.QueueingHint{"small": fwk.Queue, "large": fwk.QueueSkip} {
		_, _, hint := glanceRig(t, profile)
		if got := hint(); got != want {
			t.Errorf("%s: got %s, want %s", profile, got, want)
		}
	}
	_, m, hint := glanceRig(t, "large", "huge")
	if got := hint(); got != fwk.QueueSkip || m.asked.Load() != 4 {
		t.Errorf("two claims: got %s after %d evaluations", got, m.asked.Load())
	}
}

// TestGlanceOnManyDevices: it does not look at all of them.
func TestGlanceOnManyDevices(t *testing.T) {
	r, m, _ := glanceRig(t, "large")
	pod := newPod("p", "c0")
	many := newSlice("n1")
	for i := range glanceLooks/2 + 1 {
		many.Spec.Devices = append(many.Spec.Devices, withProfile(fmt.Sprintf("d%d", i), "small"))
	}
	if got, err := r.plugin.hints.afterSliceChange(klog.Background(), pod, nil, many); err != nil || got != fwk.Queue {
		t.Errorf("got %s, %v", got, err)
	}
	if got := m.asked.Load(); got != glanceLooks {
		t.Errorf("evaluated %d expressions, want %d", got, glanceLooks)
	}
	many.Spec.Devices = many.Spec.Devices[:glanceLooks/2]
	if got, err := r.plugin.hints.afterSliceChange(klog.Background(), pod, nil, many); err != nil || got != fwk.QueueSkip {
		t.Errorf("as many as it looks at: got %s, %v", got, err)
	}
}
