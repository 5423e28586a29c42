// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/kube/augment"
)

// site is a node with a driver and a Guard, and the API server beside it.
type site struct {
	t         *testing.T
	directory string
	client    dynamic.Interface
	reports   chan error
	published chan resourceslice.DriverResources
	publisher *augment.Publisher
	guard     *augment.Guard
}

func newSite(t *testing.T, attachments ...*v1alpha1.DeviceAttachment) *site {
	t.Helper()
	s := &site{t: t, directory: t.TempDir(), reports: make(chan error, 100), published: make(chan resourceslice.DriverResources, 100)}
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	client := dynamicfake.NewSimpleDynamicClient(scheme)
	client.PrependReactor("update", "deviceattachments", conflicts())
	s.client = client
	for _, a := range attachments {
		s.create(a)
	}
	return s
}

// start starts the driver, as at boot.
func (s *site) start() {
	s.t.Helper()
	var err error
	s.publisher, err = augment.NewPublisher(s.t.Context(), augment.Config{
		Directory: s.directory, Driver: driver, Report: func(err error) { s.reports <- err },
		Publish: func(_ context.Context, r resourceslice.DriverResources) error { s.published <- r; return nil },
	})
	must(s.t, err)
	s.guard, err = augment.NewGuard(s.t.Context(), augment.GuardConfig{Client: s.client, Node: "node-1", Publisher: s.publisher})
	must(s.t, err)
	guard, publisher := s.guard, s.publisher
	s.t.Cleanup(func() { guard.Close(); publisher.Close() })
}

func (s *site) attachments() dynamic.ResourceInterface {
	return s.client.Resource(v1alpha1.SchemeGroupVersion.WithResource("deviceattachments"))
}

func (s *site) create(a *v1alpha1.DeviceAttachment) {
	s.t.Helper()
	_, err := s.attachments().Create(s.t.Context(), s.raw(a), metav1.CreateOptions{})
	must(s.t, err)
}

func (s *site) raw(a *v1alpha1.DeviceAttachment) *unstructured.Unstructured {
	s.t.Helper()
	a.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "DeviceAttachment"}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	must(s.t, err)
	return &unstructured.Unstructured{Object: object}
}

func (s *site) get(name string) *v1alpha1.DeviceAttachment {
	s.t.Helper()
	o, err := s.attachments().Get(s.t.Context(), name, metav1.GetOptions{})
	must(s.t, err)
	a := &v1alpha1.DeviceAttachment{}
	must(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, a))
	return a
}

// enter has an attachment be in a phase, as the controller does.
func (s *site) enter(name string, phase v1alpha1.Phase) {
	s.t.Helper()
	must(s.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		a := s.get(name)
		a.Status.Phase = phase
		_, err := s.attachments().UpdateStatus(s.t.Context(), s.raw(a), metav1.UpdateOptions{})
		return err
	}))
}

// conflicts refuses a write on top of another version than the last, as an API server
// does. Reactors are called one at a time.
func conflicts() clienttesting.ReactionFunc {
	versions := map[string]int{}
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		update, _ := action.(clienttesting.UpdateAction)
		o, _ := update.GetObject().(*unstructured.Unstructured)
		if last := versions[o.GetName()]; last > 0 && o.GetResourceVersion() != strconv.Itoa(last) {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "deviceattachments"}, o.GetName(), errors.New("there is a newer one"))
		}
		versions[o.GetName()]++
		o.SetResourceVersion(strconv.Itoa(versions[o.GetName()]))
		return false, nil, nil
	}
}

func (s *site) eventually(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			for len(s.reports) > 0 {
				s.t.Log(<-s.reports)
			}
			s.t.Fatalf("not in %s: %s", limit, what)
		}
	}
}

// says waits until an attachment has the condition of the node.
func (s *site) says(name string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	s.eventually(name+" has NodeGuarded "+string(status)+", "+reason, func() bool {
		c := meta.FindStatusCondition(s.get(name).Status.Conditions, v1alpha1.AttachmentNodeGuarded)
		return c != nil && c.Status == status && c.Reason == reason
	})
}

// files are the names of the files in the directory.
func (s *site) files() string {
	s.t.Helper()
	entries, err := os.ReadDir(s.directory)
	must(s.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// publish publishes one device and returns the claims that it is kept for.
func (s *site) publish(uuid string) string {
	s.t.Helper()
	must(s.t, s.publisher.Publish(s.t.Context(), resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{{
		Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: &uuid}}}},
	}}}}}))
	return claims(receive(s.t, s.published))
}

func claims(r resourceslice.DriverResources) string {
	var all []string
	for _, taint := range r.Pools["node-1"].Slices[0].Devices[0].Taints {
		all = append(all, taint.Key+"="+taint.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func attachment(name, uuid string) *v1alpha1.DeviceAttachment {
	return &v1alpha1.DeviceAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: v1alpha1.DeviceAttachmentSpec{
			Fabric: "shelf", Node: "node-1", Offer: v1alpha1.DeviceReference{Driver: driver},
			Claim:    &v1alpha1.ClaimReference{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
			Identity: &v1alpha1.IdentityValue{Attribute: "uuid", Value: uuid},
		},
	}
}

// TestGuard follows an attachment until its claim has the device.
func TestGuard(t *testing.T) {
	s := newSite(t)
	s.start()
	s.create(attachment("a", "GPU-1a"))
	s.says("a", metav1.ConditionTrue, "TaintLoaded")
	if got, want := s.publish("GPU-1A"), "fabric.kerf.dev/claim=claim-a"; got != want {
		t.Errorf("the device is published with taints %q, want %q", got, want)
	}
	s.enter("a", "Visible")
	s.enter("a", "HandedOver")
	s.says("a", metav1.ConditionFalse, "TaintLifted")
	if got := claims(receive(t, s.published)); got != "" {
		t.Errorf("the device that was handed over is published with taints %q", got)
	}
	if got := s.files(); got != "" {
		t.Errorf("files are left: %s", got)
	}
	s.enter("a", "Settled")
	if got := s.get("a").Status; got.Phase != "Settled" || len(got.Conditions) != 1 {
		t.Errorf("status is %+v", got)
	}
}

// TestGuardKeepsOut leaves alone what is not the driver's, on the node, and for a
// claim, and what cannot be recognised.
func TestGuardKeepsOut(t *testing.T) {
	nameless, found, otherNode, otherDriver := attachment("nameless", "x"), attachment("found", "x"), attachment("node", "x"), attachment("driver", "x")
	nameless.Spec.Identity, found.Spec.Claim, otherNode.Spec.Node, otherDriver.Spec.Offer.Driver = nil, nil, "node-2", "nic.example.com"
	settled := attachment("settled", "x")
	settled.Status.Phase = "Settled"
	s := newSite(t, nameless, found, otherNode, otherDriver, settled, attachment("mine", "x"))
	s.start()
	s.says("mine", metav1.ConditionTrue, "TaintLoaded")
	if got, want := s.files(), "00-claim-mine.yaml"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
	for _, name := range []string{"nameless", "found", "node", "driver", "settled"} {
		if got := s.get(name).Status.Conditions; len(got) != 0 {
			t.Errorf("%s has conditions %v", name, got)
		}
	}
}

// TestGuardRestarts has the driver find its files as they were left, or not at all.
func TestGuardRestarts(t *testing.T) {
	s := newSite(t, attachment("a", "GPU-1"), attachment("b", "GPU-2"))
	must(t, os.WriteFile(filepath.Join(s.directory, "00-claim-gone.yaml"), []byte("left behind"), 0o600))
	must(t, os.WriteFile(filepath.Join(s.directory, ".00-claim-half.yaml"), []byte("interr"), 0o600))
	must(t, os.WriteFile(filepath.Join(s.directory, "00-claim-b.yaml"), []byte("broken"), 0o600))
	s.start()
	// Before anything else: what is published first has its taint.
	if got, want := s.publish("GPU-2"), "fabric.kerf.dev/claim=claim-b"; got != want {
		t.Errorf("published first with taints %q, want %q", got, want)
	}
	if got, want := s.files(), "00-claim-a.yaml 00-claim-b.yaml"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
	s.says("a", metav1.ConditionTrue, "TaintLoaded")
	s.says("b", metav1.ConditionTrue, "TaintLoaded")
	s.guard.Close()
	s.publisher.Close()
	must(t, s.attachments().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	s.start()
	if got, want := s.files(), "00-claim-a.yaml"; got != want {
		t.Errorf("files %q after b has gone, want %q", got, want)
	}
}

// TestGuardRepairs writes again what somebody has deleted or changed.
func TestGuardRepairs(t *testing.T) {
	s := newSite(t, attachment("a", "GPU-1"))
	s.start()
	s.says("a", metav1.ConditionTrue, "TaintLoaded")
	path := filepath.Join(s.directory, "00-claim-a.yaml")
	good, err := os.ReadFile(path)
	must(t, err)
	for _, harm := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.WriteFile(path, []byte("rules: []"), 0o600) },
		func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		must(t, harm())
		s.eventually("the file is as it was", func() bool {
			got, err := os.ReadFile(path)
			return err == nil && string(got) == string(good)
		})
	}
	s.says("a", metav1.ConditionTrue, "TaintLoaded")
}

// TestGuardSaysWhatIsRefused has a file that the driver's devices do not allow.
func TestGuardSaysWhatIsRefused(t *testing.T) {
	s := newSite(t)
	s.start()
	var full []resourceapi.DeviceTaint
	for i := range 16 {
		full = append(full, resourceapi.DeviceTaint{Key: "example.com/" + string(rune('a'+i)), Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	must(t, s.publisher.Publish(t.Context(), resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{{
		Devices: []resourceapi.Device{{Name: "gpu-0", Taints: full, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: new("GPU-1")}}}},
	}}}}}))
	s.create(attachment("a", "GPU-1"))
	s.says("a", metav1.ConditionFalse, "NotLoaded")
	if err := receive(t, s.reports); !strings.Contains(err.Error(), "00-claim-a.yaml") {
		t.Errorf("report is %v, want one that names the file", err)
	}
}

func TestNewGuardRefuses(t *testing.T) {
	s := newSite(t)
	s.start()
	for want, config := range map[string]augment.GuardConfig{
		"guard: client is nil: give one that may watch deviceattachments.fabric.kerf.dev": {Node: "n", Publisher: s.publisher},
		"guard: node is empty: give the name of the driver's node":                        {Client: s.client, Publisher: s.publisher},
		"guard: publisher is nil: give the one that publishes the driver's devices":       {Client: s.client, Node: "n"},
	} {
		if _, err := augment.NewGuard(t.Context(), config); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}
