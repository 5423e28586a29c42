// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestDeployedConfiguration: the ConfigMap of the deployment has what is built
// in.
func TestDeployedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../deploy/scheduler/configmap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployed v1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &deployed); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := yaml.Unmarshal([]byte(deployed.Data["config.yaml"]), &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(DefaultConfiguration()), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected configuration (-built in +deployed):\n%s", diff)
	}
}
