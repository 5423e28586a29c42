// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/sandbox/part"
	"kerf.dev/kerf/sandbox/rack"
)

// requester asks the API server as somebody. Nothing is stored of what it writes.
type requester struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

func newRequester(t *testing.T, config *rest.Config) requester {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	d, err := dynamic.NewForConfig(config)
	must(t, err)
	t.Cleanup(func() { must(t, part.CloseIdle(config)) })
	return requester{client, d}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as asks with the rights of a user.
func as(t *testing.T, s *Sandbox, user string) requester {
	t.Helper()
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: rack.ControllerGroups}
	return newRequester(t, config)
}

const driverAccount = "gpu-driver"

// permitNodeDriver makes the service account of a driver, with the role for its Guard
// and what drivers need to publish.
func permitNodeDriver(t *testing.T, s *Sandbox) {
	t.Helper()
	_, err := s.Client().CoreV1().ServiceAccounts(rack.Namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: driverAccount}}, metav1.CreateOptions{})
	must(t, err)
	_, err = s.Client().RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: driverAccount},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{resourceapi.GroupName}, Resources: []string{"resourceslices"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	for _, role := range []string{driverAccount, "kerf-driver:guard"} {
		_, err = s.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: driverAccount + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: rack.Namespace, Name: driverAccount}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

// nodeDriver is the driver's pod on a node, with the token that a kubelet would mount;
// with no node, somebody who has got a token without a pod.
func nodeDriver(t *testing.T, s *Sandbox, node string) requester {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := s.Client().CoreV1().Pods(rack.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: driverAccount + "-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, ServiceAccountName: driverAccount,
				Containers: []corev1.Container{{Name: "driver", Image: "driver"}},
			},
		}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			at := int64(0)
			must(t, s.Client().CoreV1().Pods(rack.Namespace).Delete(context.WithoutCancel(t.Context()), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &at}))
		})
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	token, err := s.Client().CoreV1().ServiceAccounts(rack.Namespace).CreateToken(t.Context(), driverAccount, request, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(s.Config())
	config.BearerToken = token.Status.Token
	return newRequester(t, config)
}

// try is one request, with what is to be said by whoever refuses it, empty where it is
// permitted.
type try struct {
	name string
	err  error
	want string
}

func check(t *testing.T, tries ...try) {
	t.Helper()
	for _, try := range tries {
		switch {
		case try.want == "" && try.err != nil:
			t.Errorf("%s: %v, want it permitted", try.name, try.err)
		case try.want != "" && (!apierrors.IsForbidden(try.err) || !strings.Contains(try.err.Error(), try.want)):
			t.Errorf("%s: got %v, want it forbidden: %s", try.name, try.err, try.want)
		}
	}
}

// testAdmission has drivers of nodes write what is not theirs, beside what is. It needs
// what testFabric leaves: a Fabric with an attachment to fabric-node.
func testAdmission(t *testing.T, s *Sandbox) {
	permitNodeDriver(t, s)
	here, there, nowhere := nodeDriver(t, s, "fabric-node"), nodeDriver(t, s, "node-1"), nodeDriver(t, s, "")
	deadline := time.Now().Add(limit)
	for here.createSlice(t, posing(s, t)) == nil { // policies and rights are seen a moment after they were written
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Run("slices", func(t *testing.T) { testSliceAdmission(t, s, here) })
	t.Run("attachments", func(t *testing.T) { testAttachmentAdmission(t, s, here, there, nowhere) })
}

var dryRun = []string{metav1.DryRunAll}

func (r requester) createSlice(t *testing.T, slice *resourceapi.ResourceSlice) error {
	_, err := r.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{DryRun: dryRun})
	return err
}

func (r requester) updateSlice(t *testing.T, slice *resourceapi.ResourceSlice, change func(*resourceapi.ResourceSlice)) error {
	slice = slice.DeepCopy()
	change(slice)
	_, err := r.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{DryRun: dryRun})
	return err
}

func (r requester) deleteSlice(t *testing.T, name string) error {
	return r.ResourceV1().ResourceSlices().Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun})
}

// plain is a slice as large as they get that a driver publishes for its node.
func plain(changes ...func(*resourceapi.ResourceSlice)) *resourceapi.ResourceSlice {
	node := "fabric-node"
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "admission"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "plain.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range resourceapi.ResourceSliceMaxDevices {
		d := resourceapi.Device{Name: fmt.Sprint("d", i)}
		if i > 0 { // the first has no attributes
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
			for k := range 30 {
				d.Attributes[resourceapi.QualifiedName(fmt.Sprint("a", k))] = text("v")
			}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	for _, change := range changes {
		change(slice)
	}
	return slice
}

func text(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }

// saying has the last device of a slice say something.
func saying(name resourceapi.QualifiedName) func(*resourceapi.ResourceSlice) {
	return func(slice *resourceapi.ResourceSlice) {
		slice.Spec.Devices[len(slice.Spec.Devices)-1].Attributes[name] = text("uuid")
	}
}

func ownedBy(t *testing.T, s *Sandbox) metav1.OwnerReference {
	t.Helper()
	fabrics, err := s.Rack().Fabrics(t.Context())
	must(t, err)
	return *metav1.NewControllerRef(&fabrics.Fabrics[0], v1alpha1.SchemeGroupVersion.WithKind("Fabric"))
}

// posing is a slice of no node that says that it is a Fabric's.
func posing(s *Sandbox, t *testing.T) *resourceapi.ResourceSlice {
	t.Helper()
	owner, all := ownedBy(t, s), true
	return plain(saying("fabric.kerf.dev/claim"), saying("fabric.kerf.dev/identity"), func(slice *resourceapi.ResourceSlice) {
		slice.OwnerReferences = []metav1.OwnerReference{owner}
		slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.Pool.Name = nil, &all, "fabric.kerf.dev/"+owner.Name
	})
}

const notAFabrics = "is kerf-controller's"

func testSliceAdmission(t *testing.T, s *Sandbox, driver requester) {
	owner := ownedBy(t, s)
	owned := func(slice *resourceapi.ResourceSlice) { slice.OwnerReferences = []metav1.OwnerReference{owner} }
	inItsPool := func(slice *resourceapi.ResourceSlice) { slice.Spec.Pool.Name = "fabric.kerf.dev/" + owner.Name }
	controller, collector := as(t, s, rack.ControllerUser), as(t, s, "system:serviceaccount:kube-system:generic-garbage-collector")

	mine, err := s.Client().ResourceV1().ResourceSlices().Create(t.Context(), plain(), metav1.CreateOptions{})
	must(t, err)
	theirs := posing(s, t)
	theirs.Name = "admission-fabric"
	theirs, err = s.Client().ResourceV1().ResourceSlices().Create(t.Context(), theirs, metav1.CreateOptions{})
	must(t, err)
	defer func() {
		must(t, s.Client().ResourceV1().ResourceSlices().Delete(t.Context(), mine.Name, metav1.DeleteOptions{}))
		must(t, s.Client().ResourceV1().ResourceSlices().Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}))
	}()
	other := func(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
		slice.Name = "another"
		return slice
	}
	change := func(slice *resourceapi.ResourceSlice) { slice.Spec.Pool.Generation++ }
	orphan := func(slice *resourceapi.ResourceSlice) { slice.OwnerReferences = nil }
	_, patched := driver.ResourceV1().ResourceSlices().Patch(t.Context(), theirs.Name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{DryRun: dryRun})
	check(t,
		try{"a driver's own slice", driver.createSlice(t, other(plain())), ""},
		try{"a change of it", driver.updateSlice(t, mine, change), ""},
		try{"its deletion", driver.deleteSlice(t, mine.Name), ""},
		try{"a reservation", driver.createSlice(t, other(plain(saying("fabric.kerf.dev/claim")))), notAFabrics},
		try{"an identity", driver.createSlice(t, other(plain(saying("fabric.kerf.dev/identity")))), notAFabrics},
		try{"a Fabric for owner", driver.createSlice(t, other(plain(owned))), notAFabrics},
		try{"a Fabric's pool", driver.createSlice(t, other(plain(inItsPool))), notAFabrics},
		try{"all of it", driver.createSlice(t, other(posing(s, t))), notAFabrics},
		try{"a reservation in a slice that there is", driver.updateSlice(t, mine, saying("fabric.kerf.dev/claim")), notAFabrics},
		try{"an owner for a slice that there is", driver.updateSlice(t, mine, owned), notAFabrics},
		try{"a change of a Fabric's slice", driver.updateSlice(t, theirs, change), notAFabrics},
		try{"its reservation taken away", driver.updateSlice(t, theirs, func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[:1] }), notAFabrics},
		try{"its owner taken away", driver.updateSlice(t, theirs, orphan), notAFabrics},
		try{"its owner taken away by a patch", patched, notAFabrics},
		try{"the deletion of a Fabric's slice", driver.deleteSlice(t, theirs.Name), notAFabrics},
		try{"kerf-controller's slice", controller.createSlice(t, other(posing(s, t))), ""},
		try{"a change of it", controller.updateSlice(t, theirs, change), ""},
		try{"its deletion", controller.deleteSlice(t, theirs.Name), ""},
		try{"garbage collected", collector.deleteSlice(t, theirs.Name), ""},
		try{"let go by the garbage collector", collector.updateSlice(t, theirs, orphan), ""},
		try{"changed by the garbage collector", collector.updateSlice(t, theirs, change), notAFabrics},
	)
}

func testAttachmentAdmission(t *testing.T, s *Sandbox, here, there, nowhere requester) {
	list, err := s.Dynamic().Resource(rack.AttachmentResource).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 {
		t.Fatalf("%d attachments, want 1", len(list.Items))
	}
	attachment := &list.Items[0]
	write := func(by requester, changes ...func(*unstructured.Unstructured)) error {
		o := attachment.DeepCopy()
		for _, change := range changes {
			change(o)
		}
		_, err := by.dynamic.Resource(rack.AttachmentResource).UpdateStatus(t.Context(), o, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { must(t, unstructured.SetNestedField(o.Object, value, path...)) }
	}
	condition := func(kind, status string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
			must(t, err)
			kept := conditions[:0]
			for _, c := range conditions {
				if old, ok := c.(map[string]any); ok && old["type"] != kind {
					kept = append(kept, c)
				}
			}
			kept = append(kept, map[string]any{"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
			must(t, unstructured.SetNestedSlice(o.Object, kept, "status", "conditions"))
		}
	}
	guarded := condition(v1alpha1.AttachmentNodeGuarded, "True")
	without := func(path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, path...) }
	}
	target := set(map[string]any{"driver": "gpu.example.com", "pool": "fabric-node", "device": "other"}, "status", "target")
	controller := as(t, s, rack.ControllerUser)
	const nothingElse, noOther = "nothing else of the status", "NodeGuarded and no other"
	_, patched := here.dynamic.Resource(rack.AttachmentResource).Patch(t.Context(), attachment.GetName(), types.MergePatchType,
		[]byte(`{"status":{"phase":"Released"}}`), metav1.PatchOptions{DryRun: dryRun}, "status")
	_, spec := here.dynamic.Resource(rack.AttachmentResource).Update(t.Context(), attachment, metav1.UpdateOptions{DryRun: dryRun})
	check(t,
		try{"guarded", write(here, guarded), ""},
		try{"not guarded", write(here, condition(v1alpha1.AttachmentNodeGuarded, "False")), ""},
		try{"guarded, by another node", write(there, guarded), "the attachment is to node fabric-node: the token is of a pod on node node-1"},
		try{"guarded, by no node", write(nowhere, guarded), "the token is bound to no pod on a node"},
		try{"nothing, by another node", write(there), "the token is of a pod on node node-1"},
		try{"released", write(here, set("Released", "status", "phase")), nothingElse},
		try{"released, beside the condition", write(here, guarded, set("Released", "status", "phase")), nothingElse},
		try{"released, by a patch", patched, "cannot patch"},
		try{"an operation", write(here, set("/redfish/v1/anything", "status", "operationID")), nothingElse},
		try{"another target", write(here, target), nothingElse},
		try{"no target", write(here, without("status", "target")), nothingElse},
		try{"another revision", write(here, set(int64(1<<40), "status", "revision")), nothingElse},
		try{"no status", write(here, without("status")), nothingElse},
		try{"no conditions", write(here, without("status", "conditions")), "NodeGuarded"},
		try{"another condition", write(here, condition("Attached", "Unknown")), noOther},
		try{"a condition of its own", write(here, guarded, condition("Mine", "True")), noOther},
		try{"the attachment itself", spec, "cannot update"},
		try{"kerf-controller's", write(controller, set("Draining", "status", "phase"), target, condition("Attached", "Unknown")), ""},
	)
}
