// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
)

// asking returns a pod from a line such as "init a 1, sidecar b 1, main c 2".
func asking(line string) *v1.Pod {
	pod := &v1.Pod{}
	for part := range strings.SplitSeq(line, ", ") {
		var kind, name, amount string
		if _, err := fmt.Sscan(part, &kind, &name, &amount); err != nil {
			panic(err)
		}
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("1"), "example.com/gpu": resource.MustParse(amount),
		}}}
		switch kind {
		case "main":
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			continue
		case "sidecar":
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

func TestDemandFor(t *testing.T) {
	for _, tc := range []struct {
		pod  string
		want string // request×devices: containers
		most int64
	}{
		{"main a 1", "container-0-request-1×1: a", 1},
		{"main a 1, main b 2", "container-0-request-1×1: a; container-1-request-1×2: b", 3},
		{"main a 0, main b 2", "container-1-request-1×2: b", 2},
		{"init a 1, sidecar b 1, init c 2, main d 1", "container-1-request-1×1: b a; container-2-request-1×1: c; container-3-request-1×1: d c", 3},
		{"init a 2, main b 2", "container-1-request-1×2: b a", 2},
		{"init a 1, main b 3", "container-1-request-1×1: b a; container-1-request-1-1×2: b", 3},
		{"init a 3, main b 1", "container-0-request-1×2: a; container-1-request-1×1: b a", 3},
		{"init a 1, init b 3, init c 2, main d 0", "container-0-request-1×1: a b c; container-1-request-1×1: b c; container-1-request-1-1×1: b", 3},
		{"sidecar a 1, init b 1, main c 1", "container-0-request-1×1: a; container-2-request-1×1: c b", 2},
		{"main a 1e30, main b 18446744073709551617", "container-0-request-1×4294967296: a; container-1-request-1×4294967296: b", 1 << 33},
		{"sidecar a 1, init b 2", "container-0-request-1×1: a; container-1-request-1×2: b", 3},
	} {
		d := claim.DemandFor(asking(tc.pod), "example.com/gpu", "gpu")
		var got []string
		for _, r := range d.Requests {
			var users []string
			for _, m := range d.Mappings {
				if m.RequestName == r.Name {
					users = append(users, m.ContainerName)
				}
			}
			got = append(got, fmt.Sprintf("%s×%d: %s", r.Name, r.Exactly.Count, strings.Join(users, " ")))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "; ")); diff != "" || d.Amount != tc.most {
			t.Errorf("%s: %d devices, want %d (-want +got):\n%s", tc.pod, d.Amount, tc.most, diff)
		}
	}
}

// Every container gets as many as it asks for, and the pod no more than it would of
// any other resource.
func TestDemandForIsThePeak(t *testing.T) {
	kinds := []string{"init", "sidecar"}
	for seed := range 4 * 4 * 4 * 4 * 2 * 2 * 2 {
		n, digits := seed, []int{}
		for _, base := range []int{4, 4, 4, 4, 2, 2, 2} {
			digits, n = append(digits, n%base), n/base
		}
		line := fmt.Sprintf("%s a %d, %s b %d, %s c %d, main d %d", kinds[digits[4]], digits[0], kinds[digits[5]], digits[1], kinds[digits[6]], digits[2], digits[3])
		pod := asking(line)
		d := claim.DemandFor(pod, "example.com/gpu", "gpu")
		requested := claim.PodRequests(pod)["example.com/gpu"]
		if d.Amount != requested.Value() {
			t.Errorf("%s: %d devices, want %d", line, d.Amount, requested.Value())
		}
		for i, name := range []string{"a", "b", "c", "d"} {
			var got int64
			for _, m := range d.Mappings {
				j := slices.IndexFunc(d.Requests, func(r resourceapi.DeviceRequest) bool { return r.Name == m.RequestName })
				if m.ContainerName == name {
					got += d.Requests[j].Exactly.Count
				}
			}
			if got != int64(digits[i]) {
				t.Errorf("%s: container %s gets %d", line, name, got)
			}
		}
	}
}

func TestExtendedResources(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"deviceclass.resource.kubernetes.io/gpu": resource.MustParse("1")}}}},
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("2Mi"), "kubernetes.io/x": resource.MustParse("1"),
			"example.com/gpu": resource.MustParse("1"), "example.com/none": resource.MustParse("0"),
		}}}},
	}}
	if diff := cmp.Diff([]v1.ResourceName{"deviceclass.resource.kubernetes.io/gpu", "example.com/gpu"}, claim.ExtendedResources(pod)); diff != "" {
		t.Error(diff)
	}
}

func TestClassServing(t *testing.T) {
	day := func(n int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)) }
	class := func(name string, created metav1.Time, mapped *string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: mapped}}
	}
	gpu := new("example.com/gpu")
	classes := []*resourceapi.DeviceClass{
		class("old", day(1), gpu), class("z-new", day(2), gpu), class("new", day(2), gpu), class("newest", day(3), nil),
		class("old-nic", day(1), new("example.com/nic")), class("z-to-come", metav1.Time{}, new("example.com/nic")),
		class("to-come", metav1.Time{}, new("example.com/nic")), class("young-nic", day(9), new("example.com/nic")),
	}
	for name, want := range map[v1.ResourceName]string{
		"example.com/gpu": "new", "deviceclass.resource.kubernetes.io/old": "old", "deviceclass.resource.kubernetes.io/newest": "newest", "example.com/nic": "to-come", "example.com/fpga": "",
	} {
		for range len(classes) {
			classes = append(classes[1:], classes[0])
			got := ""
			if c := claim.ClassServing(name, slices.Values(classes)); c != nil {
				got = c.Name
			}
			if got != want {
				t.Errorf("%s: got class %q, want %q", name, got, want)
			}
		}
	}
}
