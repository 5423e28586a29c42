// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kerf.dev/kerf/kube/manifest"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name, input string
		// want is the start of each line.
		want []string
	}{
		{"selector", `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: a}
spec:
  selectors:
  - cel: {expression: device.drivr == "a"}
`, []string{`f:6: document 1: DeviceClass a: spec.selectors[0].cel.expression: Invalid value: "device.drivr == \"a\"": compilation failed: `}},
		{"old version", `apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: a.example.com
  pool: {name: a, generation: -1, resourceSliceCount: 1}
  nodeName: a
`, []string{`f:6: document 1: ResourceSlice a: spec.pool.generation: Invalid value: -1: `}},
		{"admin access", `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, adminAccess: true}}]}}
`, []string{"f:4: document 1: ResourceClaim a: spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires "}},
		{"allowed admin access", `apiVersion: v1
kind: Namespace
metadata: {name: admin, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: admin}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, adminAccess: true}}]}}
`, nil},
		{"order of the input", `apiVersion: v1
kind: Pod
metadata: {generateName: a-}
spec: {containers: [{name: main}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: A}
`, []string{"f:4: document 1: Pod a-: spec.containers[0].image: Required value", "f:8: document 2: DeviceClass A: metadata.name: Invalid value: "}},
		{"nothing to say", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_}\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := manifest.Parse("f", strings.NewReader(test.input))
			if err != nil {
				t.Fatal(err)
			}
			var mistakes manifest.Errors
			if err := Check(t.Context(), set); err != nil && !errors.As(err, &mistakes) {
				t.Fatal(err)
			}
			var got []string
			for i, mistake := range mistakes {
				line := mistake.Error()
				if i < len(test.want) && strings.HasPrefix(line, test.want[i]) {
					line = test.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}
