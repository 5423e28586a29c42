// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestPanicLeavesNoSliceBehind: the tracker panics over a rule that selects many slices,
// because one of them has grown and it does not know yet. All others have the rule's
// taint nevertheless, at once, and pods that wait are tried again. When the rule goes,
// so do the taints.
func TestPanicLeavesNoSliceBehind(t *testing.T) {
	const others = 60 // the tracker takes them in no order; hardly ever the one that grows is the last
	slow, grows := newSlice("slow", newDevice("d")), newSlice("grows", newDevice("d"))
	objects := []*resourceapi.ResourceSlice{slow, grows}
	for i := range others {
		objects = append(objects, newSlice(fmt.Sprintf("n%d", i), newDevice("d")))
	}
	api := newAPIServer(newPod("waits", "c"))
	for _, slice := range objects {
		if err := api.client.Tracker().Add(api.stamp(slice.DeepCopy())); err != nil {
			t.Fatal(err)
		}
	}
	r := newRigOn(t, "", api)
	release := r.delaySlices(slow, newSlice("grows", newDevice("d"), newDevice("e")))
	panics := survived.count.Load()
	of := driver
	rule := guardRule("drain", "d")
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: &of}
	rules := r.api.client.ResourceV1().DeviceTaintRules()
	if _, err := rules.Create(r.ctx, rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the tracker panics", func() bool { return survived.count.Load() > panics })
	if got := r.tainted(); got < others+1 {
		t.Errorf("%d of %d slices that have not changed have the taint", got, others+1)
	}
	if got := r.activated.count(); got != 1 {
		t.Errorf("%d pods are tried again, want the one that waits", got)
	}
	if before := r.listed(); !slices.Equal(before, r.listed()) {
		t.Error("slices are made anew although nothing has changed")
	}
	release()
	r.eventually("all have the taint", func() bool { return r.tainted() == others+2 })
	if err := rules.Delete(r.ctx, rule.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("none has the taint", func() bool { return r.tainted() == 0 })
}

// delaySlices changes two slices. The tracker hangs over the first and has not come to
// the second, which the informer has already, until it is released.
func (r *rig) delaySlices(first, second *resourceapi.ResourceSlice) (release func()) {
	r.t.Helper()
	hangs, goOn, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	_, err := r.tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {
		once.Do(func() {
			close(hangs)
			<-goOn
		})
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	client, known := r.api.client.ResourceV1().ResourceSlices(), r.plugin.handle.SharedInformerFactory().Resource().V1().ResourceSlices().Lister()
	for _, slice := range []*resourceapi.ResourceSlice{first, second} {
		slice = slice.DeepCopy()
		r.api.stamp(slice)
		if _, err := client.Update(r.ctx, slice, metav1.UpdateOptions{}); err != nil {
			r.t.Fatal(err)
		}
		if slice.Name == first.Name {
			<-hangs
		}
		r.eventually("slice "+slice.Name+" arrives", func() bool {
			got, err := known.Get(slice.Name)
			return err == nil && got.ResourceVersion == slice.ResourceVersion
		})
	}
	return func() { close(goOn) }
}

// listed are the slices as the plugin sees them.
func (r *rig) listed() []*resourceapi.ResourceSlice {
	r.t.Helper()
	all, err := r.plugin.rules.Mend(r.manager).ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// tainted counts the pools whose device d has a taint of a rule, as the plugin sees it.
func (r *rig) tainted() int {
	r.t.Helper()
	snapshot, err := r.plugin.feed.Snapshot(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for pool := range snapshot.Pools {
		if d := pool.Device("d"); d != nil && len(d.Taints) > 0 {
			n++
		}
	}
	return n
}
