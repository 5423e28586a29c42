// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// promises has the model promise what the rig's driver does not publish.
func promises(f *v1alpha1.Fabric) {
	f.Spec.Models[0].Attributes = map[string]v1alpha1.AttributeValue{"productName": {String: ptr.To("A100")}}
	f.Spec.Models[0].Capacity = map[string]v1alpha1.Amount{"memory": "40Gi"}
}

// model is what the Fabric says of its only model, nil if nothing.
func (r *rig) model() *v1alpha1.ModelStatus {
	r.t.Helper()
	f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: r.fabric.Name}}
	r.get(f)
	if len(f.Status.Models) == 0 {
		return nil
	}
	return &f.Status.Models[0]
}

// TestNotAsPromised has a device that is not what its model promises fail its claim, go
// back, and stay there, whatever is started anew, until the spec of the Fabric changes.
func TestNotAsPromised(t *testing.T) {
	const want = `attribute gpu.example.com/productName: the model promises A100, the driver publishes none; ` +
		"capacity gpu.example.com/memory: the model promises 40Gi, the driver publishes none"
	r := newRig(t, promises)
	r.eventually("three devices are offered", func() bool { return len(r.offered()) == 3 })
	claim := r.claim("train", "gpu-2", "node-a")
	r.eventually("the device is attached", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told in what it differs", func() bool {
		r.get(claim)
		if len(claim.Status.Devices) == 0 {
			return false
		}
		c := meta.FindStatusCondition(claim.Status.Devices[0].Conditions, v1alpha1.ConditionAttachFailed)
		return c != nil && c.Reason == string(fabric.ReasonUnlike) && strings.HasSuffix(c.Message, want)
	})
	m := r.model()
	if m == nil || len(m.Withheld) != 1 || !strings.HasSuffix(m.Withheld[0].Difference, want) || !strings.HasSuffix(m.Withheld[0].Device, "/gpu-2") {
		t.Fatalf("the model is %+v", m)
	}
	if c := meta.FindStatusCondition(m.Conditions, v1alpha1.ModelAsPromised); c == nil || c.Status != metav1.ConditionFalse ||
		c.ObservedGeneration != 1 || !strings.Contains(c.Message, "1 device is not offered any more") || !strings.Contains(c.Message, want) {
		t.Errorf("condition %+v", c)
	}
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 && len(r.attachments()) == 0 })
	withheld := func() bool {
		offered := r.offered()
		_, there := offered[offerOf("gpu-2")]
		return len(offered) == 2 && !there
	}
	r.drive("node-a", "host-a")
	r.quiet("it is not offered", withheld)
	r.stop(r.fabrics)
	r.run()
	r.quiet("it is not offered by another controller", withheld)
	f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: r.fabric.Name}}
	r.get(f)
	if f.Status.Devices.Free != 2 || f.Status.Devices.Unavailable != 1 || !strings.Contains(r.ready(f.Name).Message, want) {
		t.Errorf("counts %+v, ready %+v", f.Status.Devices, r.ready(f.Name))
	}
	r.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		r.get(f)
		f.Spec.Models[0].Attributes, f.Spec.Models[0].Capacity, f.Generation = nil, nil, 2
		return r.client.Update(t.Context(), f)
	}))
	r.reconcile()
	r.eventually("it is offered again", func() bool { return len(r.offered()) == 3 && r.model() == nil })
}

// TestWithholdIn keeps what is withheld of a spec, and no more of it than the schema takes.
func TestWithholdIn(t *testing.T) {
	var s v1alpha1.FabricStatus
	put := func(generation int64, model, device string) (bool, error) {
		return withholdIn(&s, generation, &fabric.Withheld{Model: model, Device: fabric.DeviceRef(device), Difference: strings.Repeat("é", maxDifference)})
	}
	count := func() (n int) {
		for i := range s.Models {
			n += len(s.Models[i].Withheld)
		}
		return n
	}
	for _, step := range []struct {
		generation    int64
		model, device string
		changed       bool
		left          int
	}{
		{3, "a", "/0", true, 1}, {3, "a", "/1", true, 2}, {3, "b", "/1", true, 3},
		{3, "a", "/0", false, 3}, // It says so already.
		{4, "a", "/0", true, 1},  // The spec has changed.
	} {
		if changed, err := put(step.generation, step.model, step.device); changed != step.changed || err != nil || count() != step.left {
			t.Errorf("%+v: changed %v, error %v, left %d", step, changed, err, count())
		}
	}
	if _, err := put(3, "a", "/7"); err == nil {
		t.Error("a loop for an older spec has written over a newer one")
	}
	for i := range 2 * fabric.MaxWithheld {
		if _, err := put(4, "a", string(rune('A'+i))); err != nil {
			t.Fatal(err)
		}
	}
	c := meta.FindStatusCondition(s.Models[0].Conditions, v1alpha1.ModelAsPromised)
	if count() != fabric.MaxWithheld || len(s.Models[0].Withheld[0].Difference) > maxDifference || !strings.HasPrefix(c.Message, "all devices are not offered") {
		t.Errorf("%d are withheld: %s", count(), c.Message)
	}
	f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Generation: 4}, Status: s}
	if got := withheldBy(f, 4); len(got) != fabric.MaxWithheld {
		t.Errorf("%d are read", len(got))
	}
	if got := withheldBy(f, 5); len(got) != 0 {
		t.Errorf("%d are read for another spec", len(got))
	}
}

// TestFlaws has devices that nobody can be allocated be told with the reason, also where
// they make their pool invalid.
func TestFlaws(t *testing.T) {
	takes := func(set, counter, amount string) []resourceapi.DeviceCounterConsumption {
		return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{counter: {Value: resource.MustParse(amount)}}}}
	}
	for _, tc := range []struct {
		name  string
		takes []resourceapi.DeviceCounterConsumption
		want  string
	}{
		{"as much as there is", takes("card", "memory", "40Gi"), ""},
		{"more than there is", takes("card", "memory", "80Gi"), "it consumes 80Gi of counter memory of counter set card, which has 40Gi"},
		{"no such counter", takes("card", "engines", "1"), "device new consumes counter engines of counter set card, which the set does not have"},
		{"no such set", takes("tray", "memory", "1"), "device new consumes counter set tray, which the pool does not have"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "shelf"}, Spec: v1alpha1.FabricSpec{
				Models: []v1alpha1.DeviceModel{{Name: "m", Driver: gpuDriver}}, Identity: v1alpha1.DeviceIdentity{Attribute: "uuid"}}}
			p, seen := newPools(f), &seenPools{}
			counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "counters"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: gpuDriver, NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 2},
				SharedCounters: []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("40Gi")}}}}}}
			devices := counters.DeepCopy()
			devices.Name, devices.Spec.SharedCounters = "devices", nil
			devices.Spec.Devices = []resourceapi.Device{{Name: "old"}}
			p.set(counters, false)
			p.set(devices, false)
			p.tell(seen)
			arrived := devices.DeepCopy()
			arrived.Spec.Devices = append(arrived.Spec.Devices, resourceapi.Device{Name: "new", ConsumesCounters: tc.takes})
			p.set(arrived, false)
			p.tell(seen)
			var got []string
			for _, d := range seen.last.Devices {
				got = append(got, d.Name+": "+d.Flaw)
			}
			slices.Sort(got)
			if want := []string{"new: " + tc.want, "old: "}; !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// seenPools keeps what a planner is told last.
type seenPools struct{ last fabric.NodePool }

func (s *seenPools) ObservePool(p fabric.NodePool) { s.last = p }
func (s *seenPools) ForgetPool(_, _, _ string)     {}

// TestBothNames has the full name of an attribute count where the short one is there, too.
func TestBothNames(t *testing.T) {
	for range 20 {
		got := byFullName("d", map[resourceapi.QualifiedName]string{"a": "short", "d/a": "full", "b": "only"}, func(v string) string { return v })
		if len(got) != 2 || got["d/a"] != "full" || got["d/b"] != "only" {
			t.Fatalf("%v", got)
		}
	}
}

// TestWorded tells values of different types apart that look alike.
func TestWorded(t *testing.T) {
	seen := map[string]int{}
	for i, a := range []resourceapi.DeviceAttribute{
		{StringValue: ptr.To("A100")}, {StringValue: ptr.To("")}, {StringValue: ptr.To("3")}, {IntValue: ptr.To[int64](3)}, {StringValue: ptr.To("-3")}, {IntValue: ptr.To[int64](-3)},
		{StringValue: ptr.To("true")}, {BoolValue: ptr.To(true)}, {StringValue: ptr.To("1.0.0")}, {VersionValue: ptr.To("1.0.0")}, {StringValue: ptr.To("version 1.0.0")},
		{StringValue: ptr.To(`"A100"`)}, {StringValues: []string{"A100"}}, {StringValue: ptr.To(`["A100"]`)}, {StringValues: []string{"a b"}}, {StringValues: []string{"a", "b"}},
		{IntValues: []int64{3}}, {BoolValues: []bool{true}}, {VersionValues: []string{"1.0.0"}}, {StringValue: ptr.To("versions [1.0.0]")},
	} {
		text := worded(a)
		if other, twice := seen[text]; twice {
			t.Errorf("%d and %d are both %s", other, i, text)
		}
		seen[text] = i
	}
	if got := worded(resourceapi.DeviceAttribute{StringValue: ptr.To("A100")}); got != "A100" {
		t.Errorf("a text is %s", got)
	}
}

// TestBadAmount has a Fabric that was made before its schema refused the amount say so.
func TestBadAmount(t *testing.T) {
	r := stillRig(t, func(f *v1alpha1.Fabric) {
		f.Spec.Models[0].Capacity = map[string]v1alpha1.Amount{"memory": "1e-999999999"}
	})
	r.fabrics = r.newFabrics()
	_, err := r.fabrics.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shelf"}})
	if c := r.ready("shelf"); err == nil || c.Reason != "Invalid" || !strings.Contains(c.Message, "spec.models[0].capacity[memory] (model a100): ") || len(r.fabrics.loops) > 0 {
		t.Errorf("error %v, condition %+v", err, c)
	}
}
