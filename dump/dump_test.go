// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/dump"
)

const secret = "hunter2"

// objects has one object of each kind, with what a dump keeps and what it must
// not keep.
func objects() []any {
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: "1", Labels: map[string]string{"a": "b"},
			Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret}},
		}
	}
	parameters := &resourceapi.OpaqueDeviceConfiguration{
		Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"token": "` + secret + `"}`)},
	}
	config := resourceapi.DeviceConfiguration{Opaque: parameters}
	claim := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2}}},
		Config:   []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: config}},
	}}
	claimMeta := named("claim")
	claimMeta.Annotations[resourceapi.PodResourceClaimAnnotation] = "gpu"
	return []any{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&v1.Node{ObjectMeta: named("node"), Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")},
			Images:      []v1.ContainerImage{{Names: []string{secret}}},
		}},
		&resourceapi.DeviceClass{ObjectMeta: named("gpu"), Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}},
			Config:    []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: config}},
		}},
		&resourceapi.ResourceSlice{ObjectMeta: named("slice"), Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To("node"), Pool: resourceapi.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: ptr.To(int64(1 << 53))}}}},
		}},
		&resourceapi.DeviceTaintRule{ObjectMeta: named("rule"), Spec: resourceapi.DeviceTaintRuleSpec{
			Taint: resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoExecute},
		}},
		&resourceapi.ResourceClaimTemplate{ObjectMeta: named("template"), Spec: resourceapi.ResourceClaimTemplateSpec{ObjectMeta: named(""), Spec: claim}},
		&resourceapi.ResourceClaim{ObjectMeta: claimMeta, Spec: claim, Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node", Device: "gpu-0"}},
				Config:  []resourceapi.DeviceAllocationConfiguration{{DeviceConfiguration: config}},
			}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "3"}},
			Devices: []resourceapi.AllocatedDeviceStatus{{
				Driver: "gpu.example.com", Pool: "node", Device: "gpu-0", Data: &parameters.Parameters,
				Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}},
			}},
		}},
		&v1.Pod{ObjectMeta: named("pod"), Spec: v1.PodSpec{
			NodeName:       "node",
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}},
			Containers: []v1.Container{{
				Name: "main", Command: []string{secret}, Args: []string{secret}, Env: []v1.EnvVar{{Name: "TOKEN", Value: secret}},
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}},
			}},
			Volumes: []v1.Volume{{Name: secret}},
		}, Status: v1.PodStatus{Phase: v1.PodRunning, ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("claim")}}}},
		&v1alpha1.CompoundPolicy{ObjectMeta: named("policy"), Spec: v1alpha1.CompoundPolicySpec{Atoms: []v1alpha1.Atom{{Name: "gpu", Driver: "gpu.example.com", Alone: true}}}},
	}
}

func filled(t *testing.T) *dump.Dump {
	t.Helper()
	d := dump.New()
	for _, o := range objects() {
		if err := d.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestRoundTrip(t *testing.T) {
	d := filled(t)
	first, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := dump.Unmarshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, read); diff != "" {
		t.Errorf("dump (-written +read):\n%s", diff)
	}
	second, err := read.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Errorf("text (-first +second):\n%s", diff)
	}
}

func TestKeepsNoSecrets(t *testing.T) {
	text, err := filled(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("the dump has a secret:\n%s", text)
	}
}

// TestWritesNoSecrets has objects in the dump that did not come through Add.
func TestWritesNoSecrets(t *testing.T) {
	d := dump.New()
	for _, o := range objects() {
		switch o := o.(type) {
		case *v1.Pod:
			d.Pods = append(d.Pods, o)
		case *v1.Node:
			d.Nodes = append(d.Nodes, o)
		case *resourceapi.DeviceClass:
			d.DeviceClasses = append(d.DeviceClasses, o)
		case *resourceapi.ResourceClaim:
			d.ResourceClaims = append(d.ResourceClaims, o)
		case *resourceapi.ResourceClaimTemplate:
			d.ResourceClaimTemplates = append(d.ResourceClaimTemplates, o)
		}
	}
	text, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("the dump has a secret:\n%s", text)
	}
}

// TestCutOff cuts a dump after every byte.
func TestCutOff(t *testing.T) {
	text, err := filled(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole := len(text) - 1 // The last newline carries nothing.
	known := strings.Index(string(text), "sealed: true}") + len("sealed: true}")
	for n := range whole {
		if _, err := dump.Unmarshal(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for the dump:\n%s", n, len(text), text[:n])
		}
		if cut := dump.CutOff(text[:n]); cut != (n >= known) {
			t.Fatalf("CutOff of %d bytes is %v; the first %d announce the end", n, cut, known)
		}
	}
	for _, n := range []int{whole, len(text)} {
		if _, err := dump.Unmarshal(text[:n]); err != nil {
			t.Errorf("%d of %d bytes: %v", n, len(text), err)
		}
	}
}

// TestReadsUnsealed reads what has no seal, and refuses a seal without end in
// any notation.
func TestReadsUnsealed(t *testing.T) {
	const unsealed = `{"kind": "Dump", "apiVersion": "kerf.dev/v1alpha1", "metadata": {"name": "cluster"}, "nodes": []}`
	if _, err := dump.Unmarshal([]byte(unsealed)); err != nil {
		t.Error(err)
	}
	const unfinished = `{"kind": "Dump", "apiVersion": "kerf.dev/v1alpha1", "metadata": {"name": "cluster", "sealed": true}, "nodes": []}`
	if _, err := dump.Unmarshal([]byte(unfinished)); err == nil || !strings.Contains(err.Error(), dump.CutOffProblem) {
		t.Errorf("error %v, want %q", err, dump.CutOffProblem)
	}
}

// TestKeepsGaps writes, reads and merges what a dump lacks.
func TestKeepsGaps(t *testing.T) {
	d := dump.New()
	d.Missing = []dump.Gap{{Resource: "nodes"}, {Resource: "pods", OnlyIn: "team-a"}, {Resource: "devicetaintrules", NotServed: true}}
	text, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := dump.Unmarshal(text)
	if err != nil {
		t.Fatal(err)
	}
	merged := dump.New()
	merged.Merge(read)
	if diff := cmp.Diff(d.Missing, merged.Missing); diff != "" {
		t.Errorf("missing (-written +read):\n%s", diff)
	}
}

// TestSorts adds objects in another order and expects the same text.
func TestSorts(t *testing.T) {
	texts := map[string]bool{}
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}} {
		d := dump.New()
		for _, name := range names {
			if err := d.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		text, err := d.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		texts[string(text)] = true
	}
	if len(texts) != 1 {
		t.Errorf("got %d texts, want 1: %v", len(texts), texts)
	}
}

// What YAML cannot have is not written, and the object is named.
func TestTooLongForYAML(t *testing.T) {
	d := dump.New()
	for _, name := range []string{"a", "b"} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "b" {
			node.Labels = map[string]string{"a": "b", strings.Repeat("x", 2000): ""}
		}
		if err := d.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Marshal(); err == nil || !strings.HasPrefix(err.Error(), "nodes: b: cannot be written as YAML") {
		t.Errorf("error %v, want one about node b", err)
	}
}

func TestRefuses(t *testing.T) {
	for _, test := range []struct{ name, input, want string }{
		{"no YAML", "{", "not a dump: "},
		{"another kind", "kind: List\napiVersion: v1\n", `kind: is "List", want Dump`},
		{"no kind", "apiVersion: kerf.dev/v1alpha1\n", `kind: is "", want Dump`},
		{"another version", "kind: Dump\napiVersion: kerf.dev/v9\n", `apiVersion: is "kerf.dev/v9", this version of kerf reads kerf.dev/v1alpha1`},
		{"unknown field", "kind: Dump\napiVersion: kerf.dev/v1alpha1\nnode: []\n", `unknown field "node"`},
		{"an amount without end", "kind: Dump\napiVersion: kerf.dev/v1alpha1\nnodes: [{status: {allocatable: {cpu: 1e-999999999}}}]\n", `line 3: nodes[0].status.allocatable.cpu: is "1e-999999999"`},
		{"no name", "kind: Dump\napiVersion: kerf.dev/v1alpha1\n", "metadata.name: is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := dump.Unmarshal([]byte(test.input)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if err := dump.New().Add(&v1.Secret{}); err == nil {
		t.Error("a Secret was added")
	}
}
