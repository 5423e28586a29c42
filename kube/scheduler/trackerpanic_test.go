// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"kerf.dev/kerf/inventory"
)

// TestRulesWhileDevicesArrive: rules come and go while the slice that they select
// gets more and more devices. The scheduler lives, and in the end it has what is
// there, with the taints that there are.
func TestRulesWhileDevicesArrive(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1"))
	slices, rules := r.api.client.ResourceV1().ResourceSlices(), r.api.client.ResourceV1().DeviceTaintRules()
	pool, of := "n1", driver
	last := ""
	for i := range 200 {
		devices := []resourceapi.Device{}
		for n := range 1 + i%100 {
			devices = append(devices, newDevice(fmt.Sprintf("gpu-%d", n)))
		}
		if _, err := slices.Update(r.ctx, newSlice("n1", devices...), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("rule-%d", i)
		_, err := rules.Create(r.ctx, &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &of, Pool: &pool},
				Taint:          resourceapi.DeviceTaint{Key: inventory.ArrivingTaint, Value: name, Effect: resourceapi.DeviceTaintEffectNoSchedule},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			if err := rules.Delete(r.ctx, last, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		last = name
	}
	r.eventually("the devices have the taint of the last rule, and no other", func() bool {
		all, err := r.plugin.rules.Mend(r.manager).ResourceSlices().ListWithDeviceTaintRules()
		if err != nil || len(all) != 1 || len(all[0].Spec.Devices) != 100 {
			return false
		}
		for _, d := range all[0].Spec.Devices {
			if len(d.Taints) != 1 || d.Taints[0].Value != last {
				return false
			}
		}
		return true
	})
}

// TestOtherPanicsEndTheProcess: only that of the tracker is survived.
func TestOtherPanicsEndTheProcess(t *testing.T) {
	SurviveTrackerPanics()
	defer func() {
		if got := recover(); got != "a bug" {
			t.Errorf("recovered %v, want the panic", got)
		}
	}()
	func() {
		defer utilruntime.HandleCrash()
		panic("a bug")
	}()
}
