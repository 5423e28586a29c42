// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/crdtest"
	"kerf.dev/kerf/fabric"
)

// TestGenerated compares what is committed with what the types give.
func TestGenerated(t *testing.T) {
	crdtest.Generated(t, "fabric.kerf.dev_fabrics.yaml", "fabric.kerf.dev_deviceattachments.yaml")
}

const goodFabric = `
apiVersion: fabric.kerf.dev/v1alpha1
kind: Fabric
metadata: {name: shelf}
spec:
  redfish:
    endpoint: https://fabric.example.com
    credentialsSecretRef: {namespace: kerf-system, name: shelf}
    caBundle: LS0tLS1CRUdJTg==
  models:
  - name: a100
    match: {manufacturer: NVIDIA, model: A100}
    driver: gpu.example.com
    attributes: {productName: {string: A100}}
    capacity: {memory: 80Gi}
  machines:
    systemUUID: {}
`

func TestFabric(t *testing.T) {
	r := crdtest.Load(t, "fabric.kerf.dev_fabrics.yaml")
	for name, tc := range map[string]struct {
		from, to string // replaced in goodFabric
		wantErr  string
	}{
		"good":                        {},
		"label":                       {from: "systemUUID: {}", to: "label: {key: example.com/machine}"},
		"nodes":                       {from: "systemUUID: {}", to: "nodes: [{node: a, machine: /redfish/v1/Systems/1}]"},
		"no machines":                 {from: "systemUUID: {}", to: "label: null", wantErr: "exactly one of label, systemUUID and nodes"},
		"two ways to find machines":   {from: "systemUUID: {}", to: "systemUUID: {}\n    label: {key: a}", wantErr: "exactly one of label, systemUUID and nodes"},
		"node listed twice":           {from: "systemUUID: {}", to: "nodes: [{node: a, machine: b}, {node: a, machine: c}]", wantErr: ""},
		"endpoint is no URL":          {from: "https://fabric.example.com", to: "fabric.example.com", wantErr: "must be an http or https URL"},
		"endpoint without host":       {from: "https://fabric.example.com", to: "https:///redfish", wantErr: "must be an http or https URL"},
		"CA bundle over http":         {from: "https://fabric", to: "http://fabric", wantErr: "caBundle needs an endpoint with https"},
		"CA bundle, not verified":     {from: "caBundle:", to: "insecureSkipVerify: true\n    caBundle:", wantErr: "caBundle and insecureSkipVerify exclude each other"},
		"password over http":          {from: "https://fabric.example.com\n", to: "http://fabric.example.com\n", wantErr: "credentials are sent over https only"},
		"short timeout":               {from: "caBundle:", to: "timeout: 10ms\n    caBundle:", wantErr: "at least 1s"},
		"model that matches all":      {from: "{manufacturer: NVIDIA, model: A100}", to: "{}", wantErr: "at least one of manufacturer, model and partNumber"},
		"no models":                   {from: "models:", to: "models: []\n  other:", wantErr: "spec.models"},
		"attribute with two values":   {from: "{string: A100}", to: "{string: A100, int: 1}", wantErr: "productName"},
		"attribute without value":     {from: "{string: A100}", to: "{}", wantErr: "productName"},
		"bad driver":                  {from: "gpu.example.com", to: "GPU", wantErr: "driver"},
		"unknown mode":                {from: "machines:", to: "handOver: Steal\n  machines:", wantErr: "handOver"},
		"unknown guard":               {from: "machines:", to: "guards: [Dog]\n  machines:", wantErr: "guards"},
		"no guards":                   {from: "machines:", to: "guards: []\n  machines:"},
		"reservation":                 {from: "machines:", to: "guards: [Reservation]\n  machines:"},
		"template":                    {from: "    attributes:", to: "    template: true\n    attributes:", wantErr: ""},
		"reservation of any device":   {from: "    driver: gpu.example.com\n", to: "    driver: gpu.example.com\n    template: true\n  guards: [Reservation]\n  other:\n", wantErr: "Reservation alone cannot keep"},
		"too many attributes":         {from: "{productName: {string: A100}}", to: "{" + strings.Join(manyAttributes(29), ", ") + "}", wantErr: "at most 29 together"},
		"many attributes":             {from: "{productName: {string: A100}}", to: "{" + strings.Join(manyAttributes(28), ", ") + "}"},
		"more per machine than all":   {from: "machines:", to: "concurrency: {operations: 2, perMachine: 3}\n  machines:", wantErr: "perMachine must not be greater"},
		"no operations":               {from: "machines:", to: "concurrency: {operations: 0}\n  machines:", wantErr: "operations"},
		"no time to attach":           {from: "machines:", to: "attachTimeout: 0s\n  machines:", wantErr: "at least 1s"},
		"detach before it is idle":    {from: "machines:", to: "idleDetachAfter: -1s\n  machines:", wantErr: "must not be negative"},
		"keep and detach idle device": {from: "machines:", to: "idleDetachAfter: 1m\n  keepIdle: true\n  machines:", wantErr: "exclude each other"},
		"capacity with an exponent":   {from: "80Gi", to: "80e9"},
		"capacity as a number":        {from: "80Gi", to: "80000"},
		"capacity that never ends":    {from: "80Gi", to: `"1e-999999999"`, wantErr: "capacity.memory"},
		"capacity without end":        {from: "80Gi", to: `"1E+999999999"`, wantErr: "capacity.memory"},
		"capacity of a long text":     {from: "80Gi", to: "\"" + strings.Repeat("8", 33) + "\"", wantErr: "capacity.memory"},
		"capacity that is no amount":  {from: "80Gi", to: "true", wantErr: "capacity.memory"},
		"long name":                   {from: "shelf}\nspec", to: strings.Repeat("s", 64) + "}\nspec", wantErr: "at most 63"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodFabric, tc.from, tc.to, 1)
			crdtest.Check(t, r.Admit(t, crdtest.Decode(t, text), nil), tc.wantErr)
		})
	}
}

// TestAmountIsNotComputed decodes objects that were made before their schema refused some
// amounts: who watches the kind has to live with them.
func TestAmountIsNotComputed(t *testing.T) {
	for written, want := range map[string]Amount{`"1e-999999999"`: "1e-999999999", `"80Gi"`: "80Gi", "80": "80", "1e999999999": "1e999999999"} {
		var m DeviceModel
		if err := json.Unmarshal([]byte(`{"capacity":{"memory":`+written+`}}`), &m); err != nil || m.Capacity["memory"] != want {
			t.Errorf("%s is %q, error %v", written, m.Capacity["memory"], err)
		}
		text, err := json.Marshal(m.Capacity)
		if err != nil || string(text) != `{"memory":"`+string(want)+`"}` {
			t.Errorf("%s is written as %s, error %v", written, text, err)
		}
	}
}

func manyAttributes(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("a%d: {int: 1}", i))
	}
	return all
}

func TestFabricDefaults(t *testing.T) {
	r := crdtest.Load(t, "fabric.kerf.dev_fabrics.yaml")
	obj := crdtest.Decode(t, goodFabric)
	crdtest.Check(t, r.Admit(t, obj, nil), "")
	var f Fabric
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj, &f, true); err != nil {
		t.Fatal(err)
	}
	s := f.Spec
	got := []any{s.HandOver, s.Guards, s.Identity, *s.Concurrency.Operations, *s.Concurrency.PerMachine, s.AttachTimeout.Duration.String(), s.Redfish.Timeout.Duration.String()}
	want := []any{HandOverReallocate, []GuardKind{GuardDeviceTaintRule, GuardReservation}, DeviceIdentity{Source: IdentityUUID, Attribute: "uuid"}, int32(1), int32(1), "10m0s", "30s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

const goodAttachment = `
apiVersion: fabric.kerf.dev/v1alpha1
kind: DeviceAttachment
metadata: {name: gpu-1}
spec:
  fabric: shelf
  device: /redfish/v1/CompositionService/ResourceBlocks/1
  node: node-1
  machine: /redfish/v1/Systems/1
  claim: {namespace: default, name: gpu, uid: 7e1a55a5-6a4e-4b7e-8d4b-0d6c1f6f5f5e}
  offer: {driver: gpu.example.com, pool: fabric.kerf.dev/shelf, device: 1-abc}
  allocatedAt: "2030-01-01T00:00:00Z"
status:
  phase: Attaching
`

func TestDeviceAttachment(t *testing.T) {
	r := crdtest.Load(t, "fabric.kerf.dev_deviceattachments.yaml")
	old := crdtest.Decode(t, goodAttachment)
	for name, tc := range map[string]struct {
		from, to string
		create   string // error when it is created so, "-" for the same as for an update
		update   string
	}{
		"as it was":      {},
		"status":         {from: "Attaching", to: "Attached"},
		"bad phase":      {from: "Attaching", to: "Stolen", create: "phase", update: "phase"},
		"other node":     {from: "node: node-1", to: "node: node-2", update: "cannot be changed"},
		"without claim":  {from: "  claim: {namespace: default, name: gpu, uid: 7e1a55a5-6a4e-4b7e-8d4b-0d6c1f6f5f5e}\n", to: "", update: "cannot be changed"},
		"template, none": {from: "  claim: {namespace: default, name: gpu, uid: 7e1a55a5-6a4e-4b7e-8d4b-0d6c1f6f5f5e}\n", to: "  template: true\n", create: "template needs a claim", update: "template needs a claim"},
		"no offer":       {from: "  offer: {driver: gpu.example.com, pool: fabric.kerf.dev/shelf, device: 1-abc}\n", to: "", create: "offer", update: "offer"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodAttachment, tc.from, tc.to, 1)
			crdtest.Check(t, r.Admit(t, crdtest.Decode(t, text), nil), tc.create)
			crdtest.Check(t, r.Admit(t, crdtest.Decode(t, text), old), tc.update)
		})
	}
}

// TestPhases checks that the object can be in the planner's phases and no others.
func TestPhases(t *testing.T) {
	r := crdtest.Load(t, "fabric.kerf.dev_deviceattachments.yaml")
	var want []string
	for _, info := range fabric.Phases() {
		want = append(want, string(info.Phase))
	}
	var got []string
	for _, value := range r.Structural.Properties["status"].Properties["phase"].ValueValidation.Enum {
		name, _ := value.Object.(string)
		got = append(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases (-planner +object):\n%s", diff)
	}
}

func TestRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Fabric", "FabricList", "DeviceAttachment", "DeviceAttachmentList"} {
		if !scheme.Recognizes(SchemeGroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
