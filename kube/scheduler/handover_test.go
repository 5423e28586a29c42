// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/handover"
)

const shelfPool = "fabric.kerf.dev/shelf"

// shelf is a fabric's pool that node n1 reaches.
func shelf(devices ...string) *resourceapi.ResourceSlice {
	slice := newSlice("shelf")
	slice.Spec.Pool.Name = shelfPool
	isController := true
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fabric.kerf.dev/v1alpha1", Kind: "Fabric", Name: "shelf", UID: "uid-shelf", Controller: &isController}}
	for _, name := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, fabricDevice(name))
	}
	slice.Spec.NodeName = nil
	slice.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}},
	}}}
	for i := range slice.Spec.Devices {
		bindsToNode := true
		slice.Spec.Devices[i].BindsToNode = &bindsToNode
	}
	return slice
}

// shelfRig has a shelf, node n1 that has no device of its own, and pods that share
// the claim c.
func shelfRig(t *testing.T, pods ...*v1.Pod) *rig {
	t.Helper()
	objects := []runtime.Object{newClass(), shelf("f0", "f1"), newSlice("n1"), newClaim("c"), newNode("n1")}
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	return newRig(t, `{"bindingTimeout":"10s"}`, objects...)
}

// shows has the node's driver publish these devices.
func (r *rig) shows(devices ...resourceapi.Device) {
	r.t.Helper()
	slice := newSlice("n1", devices...)
	slice.Spec.Pool.Generation = int64(len(devices))
	if _, err := r.api.client.ResourceV1().ResourceSlices().Update(r.ctx, slice, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the slice is seen", func() bool {
		slices, err := r.manager.ResourceSlices().ListWithDeviceTaintRules()
		for _, s := range slices {
			if s.Name == "n1" && len(s.Spec.Devices) == len(devices) {
				return err == nil
			}
		}
		return false
	})
}

func kept(name, claim string, others ...string) resourceapi.Device {
	d := newDevice(name)
	d.Taints = []resourceapi.DeviceTaint{{Key: inventory.ClaimTaint, Value: "uid-" + claim, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	for _, other := range others {
		d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: inventory.ArrivingTaint, Value: "uid-" + other, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	return d
}

// arriving is a device among those of which one is about to arrive for each claim.
func arriving(name string, claims ...string) resourceapi.Device {
	d := kept(name, "", claims...)
	d.Taints = d.Taints[1:]
	return d
}

// arrived has the controller say that the claim's first device is there.
func (r *rig) arrived(claim, data string) {
	r.t.Helper()
	r.api.change(r.t, claim, func(c *resourceapi.ResourceClaim) {
		addConditions(c, start, "attached")
		c.Status.Devices[0].Data = &runtime.RawExtension{Raw: []byte(data)}
	})
}

func as1(target string) string {
	return fmt.Sprintf(`{"apiVersion":"fabric.kerf.dev/v1alpha1","kind":"HandOver","target":{"driver":%q,"pool":"n1","device":%q}}`, driver, target)
}

const somewhere = `{"apiVersion":"fabric.kerf.dev/v1alpha1","kind":"HandOver"}`

// TestHandOver: the claim ends up with what the device is called on the node,
// however it is found, and the pod is bound in the same attempt.
func TestHandOver(t *testing.T) {
	for name, tc := range map[string]struct {
		target resourceapi.Device
		data   string
	}{
		"named":                       {newDevice("gpu-7"), as1("gpu-7")},
		"named, while others arrive":  {kept("gpu-7", "c", "x", "y"), as1("gpu-7")},
		"by the taint":                {kept("gpu-7", "c"), somewhere},
		"by the taint, others arrive": {kept("gpu-7", "c", "x"), somewhere},
		"named, guarded for it":       {arriving("gpu-7", "c"), as1("gpu-7")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			r := shelfRig(t, pod)
			c := r.cycle(pod)
			c.place("n1")
			done := c.preBindAsync("n1")
			r.expect("c", []string{"f0"}, []string{"uid-p"})
			r.shows(tc.target)
			r.arrived("c", tc.data)
			r.succeed("PreBind", c.result(done))
			r.expect("c", []string{"gpu-7"}, []string{"uid-p"})
			claim := r.api.claim(t, "c")
			if got := claim.Status.Allocation.Devices.Results[0]; len(got.BindingConditions) > 0 || got.Request != "r" {
				t.Errorf("got result %+v", got)
			}
			if claim.Status.Devices != nil {
				t.Errorf("what was said of the first allocation is still there: %+v", claim.Status.Devices)
			}
			if r.manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil || len(r.plugin.ledger.Exchanges.Promised()) > 0 {
				t.Error("something is still promised")
			}
		})
	}
}

// TestHandOverWaitsForTheNode: the condition may be seen before the device is.
func TestHandOverWaitsForTheNode(t *testing.T) {
	pod := newPod("p", "c")
	r := shelfRig(t, pod)
	c := r.cycle(pod)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.arrived("c", as1("gpu-7"))
	r.seen(r.api.claim(t, "c"))
	r.shows(newDevice("gpu-7"))
	r.eventually("PreBind ends", func() bool {
		r.clock.Step(handover.ArrivalPeriod)
		return len(done) > 0
	})
	r.succeed("PreBind", c.result(done))
	r.expect("c", []string{"gpu-7"}, []string{"uid-p"})
}

// TestHandOverNeverShown: a device that the node does not show in time is given up.
func TestHandOverNeverShown(t *testing.T) {
	pod := newPod("p", "c")
	r := shelfRig(t, pod)
	c := r.cycle(pod)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.arrived("c", as1("gpu-7"))
	r.seen(r.api.claim(t, "c"))
	r.eventually("PreBind ends", func() bool {
		r.clock.Step(time.Second)
		return len(done) > 0
	})
	got := c.result(done)
	if got.Code() != fwk.Unschedulable || !strings.Contains(got.Message(), "node n1 does not show") {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	r.expect("c", nil, nil)
}

// TestHandOverRefused: what has arrived is not what the claim can have. The
// allocation is given up, and the next attempt takes another device.
func TestHandOverRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		shown resourceapi.Device
		data  string
		want  string
		code  fwk.Code
	}{
		"kept for another":   {kept("gpu-7", "other"), as1("gpu-7"), "has arrived as gpu.example.com/n1/gpu-7: the claim cannot have it", fwk.Unschedulable},
		"of another driver":  {newDevice("gpu-7"), strings.Replace(as1("gpu-7"), driver, "nic.example.com", 1), "has arrived as nic.example.com/n1/gpu-7: it is a device of driver nic.example.com and was offered for gpu.example.com", fwk.Unschedulable},
		"unknown apiVersion": {newDevice("gpu-7"), strings.Replace(as1("gpu-7"), "v1alpha1", "v9", 1), "claim ns/c: status.devices[0].data: apiVersion fabric.kerf.dev/v9 is not known", fwk.Error},
		"broken data":        {newDevice("gpu-7"), strings.Replace(as1("gpu-7"), `{"driver"`, `[{"driver"`, 1) + "]", "", fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			r := shelfRig(t, pod)
			c := r.cycle(pod)
			c.place("n1")
			done := c.preBindAsync("n1")
			r.shows(tc.shown)
			r.arrived("c", tc.data)
			got := c.result(done)
			if got.Code() != tc.code || !strings.Contains(got.Message(), tc.want) {
				t.Errorf("got %s: %s", got.Code(), got.Message())
			}
			switch tc.code {
			case fwk.Success: // no data of ours
				r.expect("c", []string{"f0"}, []string{"uid-p"})
			case fwk.Unschedulable:
				r.expect("c", nil, nil)
			}
		})
	}
}

// TestHandOverWaitsForAnother: a device among which another claim's arrives may be that
// one. It is handed over once it is known which that is.
func TestHandOverWaitsForAnother(t *testing.T) {
	pod := newPod("p", "c")
	r := shelfRig(t, pod)
	c := r.cycle(pod)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.shows(arriving("gpu-7", "c", "x"))
	r.arrived("c", as1("gpu-7"))
	r.seen(r.api.claim(t, "c"))
	r.shows(newDevice("gpu-7"), kept("gpu-8", "x"))
	r.eventually("PreBind ends", func() bool {
		r.clock.Step(handover.ArrivalPeriod)
		return len(done) > 0
	})
	r.succeed("PreBind", c.result(done))
	r.expect("c", []string{"gpu-7"}, []string{"uid-p"})
}

// TestHandOverOfAnothers: a claim that says that another's arriving device is its own
// does not get it.
func TestHandOverOfAnothers(t *testing.T) {
	pod := newPod("p", "c")
	r := shelfRig(t, pod)
	c := r.cycle(pod)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.shows(arriving("gpu-7", "x"))
	r.arrived("c", as1("gpu-7"))
	r.seen(r.api.claim(t, "c"))
	r.eventually("PreBind ends", func() bool {
		r.clock.Step(time.Second)
		return len(done) > 0
	})
	got := c.result(done)
	if got.Code() != fwk.Unschedulable || !strings.Contains(got.Message(), "a device of another claim arrives on node n1, and gpu.example.com/n1/gpu-7 may be it") {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	r.expect("c", nil, nil)
}

// TestHandOverNotOfAFabric: what a driver says of its own devices exchanges nothing,
// be it of a pool of its own or of one with a fabric's name.
func TestHandOverNotOfAFabric(t *testing.T) {
	for name, tc := range map[string]struct {
		pool string
		code fwk.Code
		want []string
	}{
		"a pool of its own":    {"mine", fwk.Success, []string{"f0"}},
		"a fabric's pool name": {shelfPool, fwk.Unschedulable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			mine := shelf("f0")
			mine.OwnerReferences, mine.Spec.Pool.Name = nil, tc.pool
			r := newRig(t, `{"bindingTimeout":"10s"}`, newClass(), mine, newSlice("n1"), newClaim("c"), newNode("n1"), pod)
			c := r.cycle(pod)
			c.place("n1")
			done := c.preBindAsync("n1")
			r.shows(newDevice("gpu-7"))
			r.arrived("c", as1("gpu-7"))
			got := c.result(done)
			if got.Code() != tc.code || tc.want == nil && !strings.Contains(got.Message(), "slice shelf, which publishes gpu.example.com/fabric.kerf.dev/shelf/f0, is not a Fabric's") {
				t.Errorf("got %s: %s", got.Code(), got.Message())
			}
			consumers := []string{"uid-p"}
			if tc.want == nil {
				consumers = nil
			}
			r.expect("c", tc.want, consumers)
		})
	}
}

// TestHandOverToAll: pods that share a claim wait together and get it together.
func TestHandOverToAll(t *testing.T) {
	p, q := newPod("p", "c"), newPod("q", "c")
	r := shelfRig(t, p, q)
	first := r.cycle(p)
	first.place("n1")
	firstDone := first.preBindAsync("n1")
	r.expect("c", []string{"f0"}, []string{"uid-p"})
	r.seen(r.api.claim(t, "c"))
	second := r.cycle(q)
	second.place("n1")
	secondDone := make(chan *fwk.Status, 1)
	go func() { secondDone <- second.preBind("n1") }()
	r.expectEventually("c", []string{"f0"}, []string{"uid-p", "uid-q"})
	r.seen(r.api.claim(t, "c"))
	r.shows(newDevice("gpu-7"))
	r.arrived("c", as1("gpu-7"))
	r.succeed("PreBind of p", first.result(firstDone))
	r.succeed("PreBind of q", second.result(secondDone))
	r.expect("c", []string{"gpu-7"}, []string{"uid-p", "uid-q"})
}

func (r *rig) expectEventually(claim string, devices, consumers []string) {
	r.t.Helper()
	r.eventually("claim "+claim+" is as expected", func() bool {
		c := r.api.claim(r.t, claim)
		return fmt.Sprint(devicesOf(c), consumersOf(c)) == fmt.Sprint(devices, consumers)
	})
}

// TestHandOverNotFromUnderARunningPod: a claim with a pod that runs is never
// cleared.
func TestHandOverNotFromUnderARunningPod(t *testing.T) {
	p, running := newPod("p", "c"), newPod("running", "c")
	running.Spec.NodeName = "n1"
	r := shelfRig(t, p, running)
	r.seen(r.api.change(t, "c", func(c *resourceapi.ResourceClaim) {
		*c = *allocatedFabric(c, "f0", "uid-running")
		c.Status.Allocation.Devices.Results[0].Pool = shelfPool
	}))
	c := r.cycle(p)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.shows(newDevice("gpu-7"))
	r.arrived("c", as1("gpu-7"))
	got := c.result(done)
	if want := "pod ns/running runs with its devices"; got.Code() != fwk.Error || !strings.Contains(got.Message(), want) {
		t.Errorf("got %s: %s, want %q", got.Code(), got.Message(), want)
	}
	c.unreserve("n1")
	r.expect("c", []string{"f0"}, []string{"uid-running"})
}

// TestCrashBetweenTheWrites: whatever is lost at whichever write, the claim ends
// up with the device that was attached for it, and nobody else does.
func TestCrashBetweenTheWrites(t *testing.T) {
	for write := range 2 {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, done %t", write, lost), func(t *testing.T) {
				pod := newPod("p", "c")
				r := shelfRig(t, pod)
				c := r.cycle(pod)
				c.place("n1")
				done := c.preBindAsync("n1")
				r.shows(newDevice("gpu-6"), kept("gpu-7", "c"))
				failing := failOnce(write)
				if lost {
					r.api.onWrite(nil, failing)
				} else {
					r.api.onWrite(failing, nil)
				}
				r.arrived("c", as1("gpu-7"))
				if got := c.result(done); got.Code() != fwk.Error {
					t.Errorf("got %s: %s", got.Code(), got.Message())
				}
				c.unreserve("n1")
				r.api.onWrite(nil, nil)
				r.seen(r.api.claim(t, "c"))

				next := r.cycle(pod)
				next.bind("n1")
				r.expect("c", []string{"gpu-7"}, []string{"uid-p"})
			})
		}
	}
}

// failOnce fails one write of a claim's status.
func failOnce(write int) func(clienttesting.Action) error {
	n := 0
	return func(action clienttesting.Action) error {
		if action.GetSubresource() != "status" || action.GetVerb() != "update" {
			return nil
		}
		n++
		if n == write+1 {
			return errors.New("the connection is gone")
		}
		return nil
	}
}

// TestPromisedDevices: while the two writes are under way nobody else gets the
// device, neither one that looks for devices nor one that has found it before.
func TestPromisedDevices(t *testing.T) {
	p, q := newPod("p", "c"), newPod("q", "d")
	r := shelfRig(t, p, q)
	if _, err := r.api.client.ResourceV1().ResourceClaims("ns").Create(r.ctx, newClaim("d"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.seen(r.api.claim(t, "d"))
	c := r.cycle(p)
	c.place("n1")
	done := c.preBindAsync("n1")
	r.shows(newDevice("gpu-7"))
	early := r.cycle(q)
	r.succeed("PreFilter", early.preFilter())
	r.succeed("Filter", early.filter("n1"))

	var reserved *fwk.Status
	var late []string
	r.api.onWrite(nil, func(clienttesting.Action) error {
		if claim := r.api.claim(t, "c"); claim.Status.Allocation == nil && reserved == nil {
			reserved = early.reserve("n1")
			next := r.cycle(q)
			r.succeed("PreFilter", next.preFilter())
			r.succeed("Filter", next.filter("n1"))
			r.succeed("Reserve", next.reserve("n1"))
			if pending := r.manager.ResourceClaims().GetPendingAllocation("uid-d"); pending != nil {
				late = []string{pending.Devices.Results[0].Device}
			}
		}
		return nil
	})
	r.arrived("c", as1("gpu-7"))
	r.succeed("PreBind", c.result(done))
	r.expect("c", []string{"gpu-7"}, []string{"uid-p"})
	if reserved.Code() != fwk.Unschedulable || !strings.Contains(reserved.Message(), "gpu-7 was handed over") {
		t.Errorf("Reserve of what was promised: %s: %s", reserved.Code(), reserved.Message())
	}
	if fmt.Sprint(late) != "[f1]" {
		t.Errorf("another pod got %v, want f1", late)
	}
}

// TestRulesAreAcknowledged: by a scheduler that schedules, and only those that
// guard devices of a fabric.
func TestRulesAreAcknowledged(t *testing.T) {
	rule := func(name string, labels map[string]string) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 2, Labels: labels}}
	}
	guard := map[string]string{"fabric.kerf.dev/guard": "Pool"}
	r := newRig(t, "", newClass(), rule("before", guard), rule("other", nil), newPod("p"))
	seen := func(name string) bool {
		got, err := r.api.client.ResourceV1().DeviceTaintRules().Get(r.ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return apimeta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.RuleSeen)
	}
	if n := len(r.api.client.Actions()); seen("before") {
		t.Errorf("acknowledged before anything is scheduled, after %d requests", n)
	}
	r.cycle(newPod("p")).preFilter()
	r.eventually("the rule is acknowledged", func() bool { return seen("before") })
	if _, err := r.api.client.ResourceV1().DeviceTaintRules().Create(r.ctx, rule("after", guard), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the rule is acknowledged", func() bool { return seen("after") })
	other, err := r.api.client.ResourceV1().DeviceTaintRules().Get(r.ctx, "other", metav1.GetOptions{})
	if err != nil || len(other.Status.Conditions) > 0 {
		t.Errorf("a rule of somebody else has conditions %v, error %v", other.Status.Conditions, err)
	}
}
