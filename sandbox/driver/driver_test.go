// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"go.uber.org/goleak"

	"kerf.dev/kerf/fabric/redfish/service"
)

func TestNames(t *testing.T) {
	m := newMachine()
	m.own["gpu-1"] = Own("n1", service.Device{Block: "gpu-1"})
	see := func(uuids ...string) {
		var devices []service.Device
		for _, uuid := range uuids {
			devices = append(devices, service.Device{UUID: uuid})
		}
		m.see(devices)
	}
	for _, step := range []struct {
		see  []string
		want string
	}{
		{[]string{"a", "b"}, "a=gpu-0 b=gpu-2"},
		{[]string{"b"}, "b=gpu-2"},
		{[]string{"b", "c"}, "b=gpu-2 c=gpu-0"}, // A name is used again.
		{nil, ""},
		{[]string{"b"}, "b=gpu-0"}, // What comes back has no name.
	} {
		see(step.see...)
		var got []string
		for _, uuid := range slices.Sorted(maps.Keys(m.names)) {
			got = append(got, uuid+"="+m.names[uuid])
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("names after %v: %v, want %s", step.see, got, step.want)
		}
	}
}

// rig is a driver that runs against an API without logic.
type rig struct {
	*Driver
	t         *testing.T
	client    *fake.Clientset
	untainted atomic.Int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	client := fake.NewClientset()
	var names atomic.Int64
	r := &rig{t: t, client: client}
	client.PrependReactor("*", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		// An update has an object, too.
		if write, ok := action.(clienttesting.CreateAction); ok {
			r.written(write.GetObject(), &names)
		}
		return false, nil, nil
	})
	r.Driver = New(Options{
		Name: "gpu.example.com", Latency: time.Millisecond, Client: client, Directory: t.TempDir(),
		Takes:  func(d service.Device) bool { return d.Model != "other" },
		Report: func(err error) { t.Log(err) },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return r
}

// written names a new slice, and counts the device b without a taint.
func (r *rig) written(o runtime.Object, names *atomic.Int64) {
	slice, ok := o.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	if slice.Name == "" {
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, names.Add(1))
	}
	for i := range slice.Spec.Devices {
		if d := &slice.Spec.Devices[i]; uuidOf(d) == "b" && len(d.Taints) == 0 {
			r.untainted.Add(1)
		}
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) node(name string, uid types.UID) {
	r.t.Helper()
	_, err := r.client.CoreV1().Nodes().Create(r.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}, metav1.CreateOptions{})
	r.must(err)
}

// published waits until a node's pool is as wanted: names, with taints in brackets.
func (r *rig) published(node, want string) {
	r.t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		list, err := r.client.ResourceV1().ResourceSlices().List(r.t.Context(), metav1.ListOptions{})
		r.must(err)
		var names []string
		for _, s := range list.Items {
			if s.Spec.Pool.Name != node {
				continue
			}
			for _, d := range s.Spec.Devices {
				name := d.Name
				for _, taint := range d.Taints {
					name += "[" + taint.Key + "]"
				}
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if got = strings.Join(names, " "); got == want {
			return
		}
	}
	r.t.Fatalf("node %s publishes %q, want %q", node, got, want)
}

const taintFile = `apiVersion: kerf.dev/v1alpha1
kind: DeviceAugmentation
driver: gpu.example.com
rules:
- select: {attributes: {uuid: {string: b}}}
  add: {taints: [{key: fabric.kerf.dev/claim, value: uid, effect: NoSchedule}]}
`

func TestDriver(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("run", func(t *testing.T) {
		r := newRig(t)
		r.Place("n1", Own("n1", service.Device{Block: "own", MemoryMiB: 1}))
		r.node("n1", "1")
		r.published("n1", "own")

		arriving := service.Device{UUID: "a", Model: "A100"}
		r.See("n1", []service.Device{arriving, {UUID: "x", Model: "other"}})
		r.published("n1", "gpu-0 own")

		// While it is dead nothing is published; then everything.
		r.must(r.Kill("n1"))
		r.See("n1", nil)
		r.published("n1", "gpu-0 own")
		if err := r.Kill("n2"); err == nil {
			t.Error("a driver was killed on a node where it is not")
		}
		r.must(r.Start("n1"))
		r.published("n1", "own")

		// A taint from a file is there from the first publication on.
		r.must(os.WriteFile(filepath.Join(r.Directory("n1"), "claim.yaml"), []byte(taintFile), 0o600))
		r.See("n1", []service.Device{arriving, {UUID: "b", Model: "A100"}})
		r.published("n1", "gpu-0 gpu-1[fabric.kerf.dev/claim] own")
		if n := r.untainted.Load(); n > 0 {
			t.Errorf("b was published %d times without its taint", n)
		}
		r.See("n1", nil)
		r.published("n1", "own")

		nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
		list, err := r.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		r.must(err)
		var published []*resourceapi.ResourceSlice
		for i := range list.Items {
			published = append(published, &list.Items[i])
		}
		if behind := r.Behind(nodes, published); len(behind) > 0 {
			t.Errorf("behind on %v", behind)
		}
		if behind := r.Behind(nodes, nil); len(behind) != 1 {
			t.Errorf("behind on %v, want n1: there is no slice", behind)
		}
	})
}
