// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// withTaint has a device published with a taint.
func withTaint(d resourceapi.Device, effect resourceapi.DeviceTaintEffect) resourceapi.Device {
	d.Taints = []resourceapi.DeviceTaint{{Key: "worn", Value: "fan", Effect: effect}}
	return d
}

// publish replaces a slice and waits until the plugin sees that.
func (r *rig) publish(slice *resourceapi.ResourceSlice) {
	r.t.Helper()
	r.api.mutex.Lock()
	r.api.stamp(slice)
	r.api.mutex.Unlock()
	if err := r.api.client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), slice, ""); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("slice "+slice.Name+" arrives", func() bool {
		all, err := r.manager.ResourceSlices().ListWithDeviceTaintRules()
		for _, got := range all {
			if err == nil && got.Name == slice.Name && got.ResourceVersion == slice.ResourceVersion {
				return true
			}
		}
		return false
	})
}

// release takes the reservations of a claim back, as the claim controller does.
func (r *rig) release(claim string) {
	r.t.Helper()
	r.seen(r.api.change(r.t, claim, func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }))
}

func (c *cycle) postFilter() *fwk.Status {
	_, status := c.plugin.PostFilter(c.ctx, c.state, c.pod, nil)
	return status
}

// TestTaintedClaimTakesNoFurtherPods: the pod waits while others use the claim. Then that
// is given up, and allocated anew.
func TestTaintedClaimTakesNoFurtherPods(t *testing.T) {
	for name, tc := range map[string]struct {
		slice *resourceapi.ResourceSlice
		rule  *resourceapi.DeviceTaintRule
		want  string
	}{
		"NoSchedule": {slice: newSlice("n1", withTaint(newDevice("d1"), resourceapi.DeviceTaintEffectNoSchedule), newDevice("d2")), want: "worn=fan:NoSchedule"},
		"NoExecute":  {slice: newSlice("n1", withTaint(newDevice("d1"), resourceapi.DeviceTaintEffectNoExecute), newDevice("d2")), want: "worn=fan:NoExecute"},
		"a rule":     {slice: newSlice("n1", newDevice("d1"), newDevice("d2")), rule: guardRule("drain", "d1"), want: drain + ":NoSchedule by rule drain"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			objects := []runtime.Object{newClass(), tc.slice, used("c", "n1", "d1", "q"), newPod("q", "c"), pod}
			if tc.rule != nil {
				objects = append(objects, tc.rule)
			}
			r := newRig(t, "", objects...)
			c := r.cycle(pod)
			wantRefusal(t, c.preFilter(), fwk.UnschedulableAndUnresolvable, "claim ns/c takes no further pods: gpu.example.com/n1/d1 is tainted "+tc.want)
			wantRefusal(t, c.postFilter(), fwk.Unschedulable, "")
			r.idle()
			r.expect("c", []string{"d1"}, []string{"uid-q"})

			r.release("c")
			c = r.cycle(pod)
			wantRefusal(t, c.preFilter(), fwk.UnschedulableAndUnresolvable, tc.want)
			wantRefusal(t, c.postFilter(), fwk.UnschedulableAndUnresolvable, "giving up the allocation of claim ns/c")
			r.idle()
			r.expect("c", nil, nil)
			r.seen(r.api.claim(t, "c"))
			r.cycle(pod).bind("n1")
			r.expect("c", []string{"d2"}, []string{"uid-p"})
		})
	}
}

// TestTaintsThatKeepNobodyFromAClaim: those that its request tolerates, that keep nobody
// away, that keep the device for the claim, or that are about one which arrives.
func TestTaintsThatKeepNobodyFromAClaim(t *testing.T) {
	device := newDevice("d1")
	device.Taints = []resourceapi.DeviceTaint{
		{Key: "tolerated", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		{Key: "seen", Effect: resourceapi.DeviceTaintEffectNone},
		{Key: inventory.ClaimTaint, Value: "uid-c", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		{Key: inventory.ArrivingTaint, Value: "uid-other", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}
	claim := used("c", "n1", "d1", "q")
	claim.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Key: "tolerated", Operator: resourceapi.DeviceTolerationOpExists}}
	r := newRig(t, "", newClass(), newSlice("n1", device), claim, newPod("q", "c"))
	r.cycle(newPod("p", "c")).bind("n1")
	r.expect("c", []string{"d1"}, []string{"uid-p", "uid-q"})
}

// TestTaintedOnTheWay: the rule comes when the pod has been examined. It does not join.
func TestTaintedOnTheWay(t *testing.T) {
	for _, reserved := range []bool{false, true} {
		r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), used("c", "n1", "d1", "q"), newPod("q", "c"))
		c := r.cycle(newPod("p", "c"))
		r.succeed("PreFilter", c.preFilter())
		r.succeed("Filter", c.filter("n1"))
		if reserved {
			r.succeed("Reserve", c.reserve("n1"))
		}
		r.addRule(guardRule("drain", "d1"))
		got := (*fwk.Status)(nil)
		if reserved {
			got = c.preBind("n1")
		} else {
			got = c.reserve("n1")
		}
		wantRefusal(t, got, fwk.Unschedulable, "claim ns/c takes no further pods")
		c.unreserve("n1")
		r.expect("c", []string{"d1"}, []string{"uid-q"})
	}
}

// TestTaintedWhileDevicesAttach: by the time that the device is ready it must not be used
// any more.
func TestTaintedWhileDevicesAttach(t *testing.T) {
	r, c := fabricRig(t, "f0", "f1")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.publish(newSlice("n1", withTaint(fabricDevice("f0"), resourceapi.DeviceTaintEffectNoExecute), fabricDevice("f1")))
	r.setConditions("c", start, "attached")
	wantRefusal(t, c.result(done), fwk.Unschedulable, "f0 is tainted worn=fan:NoExecute")
	c.unreserve("n1")
	r.expect("c", nil, nil)
	r.seen(r.api.claim(t, "c"))
	c = r.cycle(c.pod)
	c.place("n1")
	done = c.preBindAsync("n1")
	r.setConditions("c", start, "attached")
	r.succeed("PreBind", c.result(done))
	r.expect("c", []string{"f1"}, []string{"uid-p"})
}

// TestTaintGoesWhileGivingUp: somebody changes the claim before it is given up, and there
// is no reason any more.
func TestTaintGoesWhileGivingUp(t *testing.T) {
	pod := newPod("p", "c")
	r := newRig(t, "", newClass(), newSlice("n1", withTaint(newDevice("d1"), resourceapi.DeviceTaintEffectNoSchedule)), used("c", "n1", "d1", "p"), pod)
	c := r.cycle(pod)
	wantRefusal(t, c.preFilter(), fwk.UnschedulableAndUnresolvable, "worn=fan:NoSchedule")
	changed := false
	r.api.onWrite(func(clienttesting.Action) error {
		if changed {
			return nil
		}
		changed = true
		r.publish(newSlice("n1", newDevice("d1")))
		if _, err := r.plugin.feed.Snapshot(r.ctx); err != nil { // as the attempt of another pod takes one
			return err
		}
		r.api.change(t, "c", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"a": "b"} })
		return nil
	}, nil)
	wantRefusal(t, c.postFilter(), fwk.UnschedulableAndUnresolvable, "giving up the allocation of claim ns/c")
	r.idle()
	r.expect("c", []string{"d1"}, []string{"uid-p"})
}

// TestTaintedClaimOfGroup: as long as pods of the group run with it the claim stays.
func TestTaintedClaimOfGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		scheduled   []*v1.Pod
		wantDevices []string
	}{
		"with pods that run":    {[]*v1.Pod{newPod("s")}, []string{"d1"}},
		"without pods that run": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, group := groupRig(t, tc.scheduled, &schedulingapi.PodGroupResourceClaim{Name: "c", ResourceClaimName: new("c")}, func() *rig {
				claim := used("c", "n1", "d1", "group")
				claim.Status.ReservedFor[0].APIGroup, claim.Status.ReservedFor[0].Resource = "scheduling.k8s.io", "podgroups"
				return newRig(t, "", newClass(), newSlice("n1", withTaint(newDevice("d1"), resourceapi.DeviceTaintEffectNoSchedule)), claim)
			})
			c := r.cycle(member("p", "c"))
			state := inGroup(c)
			wantRefusal(t, c.preFilter(), fwk.UnschedulableAndUnresolvable, "claim ns/c takes no further pods")
			_, got := r.plugin.PodGroupPostFilter(r.ctx, state, groupInfo{group: group, pods: []*v1.Pod{c.pod}}, nil)
			if said := strings.Contains(got.Message(), "claim ns/c"); said != (tc.wantDevices == nil) {
				t.Errorf("got message %q", got.Message())
			}
			r.idle()
			if got := devicesOf(r.api.claim(t, "c")); len(got) != len(tc.wantDevices) {
				t.Errorf("the claim has %v, want %v", got, tc.wantDevices)
			}
		})
	}
}

// TestTaintedSpecialClaim gives way to another, on the same node or any.
func TestTaintedSpecialClaim(t *testing.T) {
	devices := gpus("g", 2)
	devices[0] = withTaint(devices[0], resourceapi.DeviceTaintEffectNoSchedule)
	pod := podOf("p", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", devices...), pod, madeFor(pod, podclaim.SpecialName(pod), "gpu", "n1", "g-0", 1))
	c := r.cycle(pod)
	wantRefusal(t, c.preFilter(), fwk.UnschedulableAndUnresolvable, "gpu.example.com/n1/g-0 is tainted worn=fan:NoSchedule")
	wantRefusal(t, c.postFilter(), fwk.UnschedulableAndUnresolvable, "giving up the allocation of claim ns/"+podclaim.SpecialName(pod))
	r.idle()
	r.cycle(pod).bindOn(nodeOffering("n1"))
	if claims := r.api.claims(t); len(claims) != 1 || devicesOf(claims[0])[0] != "g-1" {
		t.Errorf("got claims %v, want one with g-1", claims)
	}
}

// TestHintsAboutTaints: a pod that waits to join a claim comes back when its taints have
// changed, and not with every change of a slice.
func TestHintsAboutTaints(t *testing.T) {
	slice := func(generation int64, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		s := newSlice("n1", devices...)
		s.Spec.Pool.Generation = generation
		return s
	}
	noSchedule := resourceapi.DeviceTaintEffectNoSchedule
	worn := withTaint(newDevice("d1"), noSchedule)
	later := withTaint(newDevice("d1"), noSchedule)
	later.Taints[0].TimeAdded = &metav1.Time{Time: start.Add(time.Hour)}
	changed := withTaint(withProfile("d1", "half"), noSchedule)
	changed.Taints = append(changed.Taints, resourceapi.DeviceTaint{Key: "seen", Effect: resourceapi.DeviceTaintEffectNone})
	elsewhere := newSlice("n2", newDevice("d1"))
	r := newRig(t, "", newClass(), newSlice("n1", worn), used("c", "n1", "d1", "q"))
	for name, tc := range map[string]struct {
		before, after *resourceapi.ResourceSlice
		want          fwk.QueueingHint
	}{
		"the taint goes":                  {slice(1, worn), slice(1, newDevice("d1")), fwk.Queue},
		"it has another effect":           {slice(1, worn), slice(1, withTaint(newDevice("d1"), resourceapi.DeviceTaintEffectNone)), fwk.Queue},
		"the device goes":                 {slice(1, worn), slice(1), fwk.Queue},
		"the slice goes":                  {slice(1, worn), nil, fwk.Queue},
		"another slice has the device":    {nil, slice(2, newDevice("d1")), fwk.Queue},
		"it was added at another time":    {slice(1, worn), slice(1, later), fwk.QueueSkip},
		"the device changes otherwise":    {slice(1, worn), slice(1, changed), fwk.QueueSkip},
		"another device changes":          {slice(1, worn, newDevice("d2")), slice(1, worn, withTaint(newDevice("d2"), noSchedule)), fwk.QueueSkip},
		"another device goes":             {slice(1, worn, newDevice("d2")), slice(1, worn), fwk.QueueSkip},
		"a device of that name elsewhere": {nil, elsewhere, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			change := struct{ before, after any }{}
			if tc.before != nil {
				change.before = tc.before
			}
			if tc.after != nil {
				change.after = tc.after
			}
			got, err := r.plugin.hints.afterSliceChange(klog.Background(), newPod("p", "c"), change.before, change.after)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
