// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

const gpu, nic = "example.com/gpu", "example.com/nic"

// mappedClass is a class of all devices of the driver whose name starts with a
// prefix, created on a day, for an extended resource.
func mappedClass(name string, day int, mapped, prefix string) *resourceapi.DeviceClass {
	class := newClass()
	class.Name, class.UID = name, "uid-class"
	class.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, day))
	if mapped != "" {
		class.Spec.ExtendedResourceName = &mapped
	}
	class.Spec.Selectors[0].CEL.Expression += fmt.Sprintf(" && device.attributes[%q].profile.startsWith(%q)", driver, prefix)
	return class
}

// container is one of a pod that asks for amounts such as "example.com/gpu=1".
func container(name string, amounts ...string) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	for _, a := range amounts {
		resourceName, amount, _ := strings.Cut(a, "=")
		c.Resources.Requests[v1.ResourceName(resourceName)] = resource.MustParse(amount)
	}
	return c
}

func sidecar(name string, amounts ...string) v1.Container {
	c := container(name, amounts...)
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

func podOf(name string, containers ...v1.Container) *v1.Pod {
	pod := newPod(name)
	pod.Spec.Containers = containers
	return pod
}

// nodeOffering is a node whose device plugins offer amounts.
func nodeOffering(name string, amounts ...string) *framework.NodeInfo {
	node := newNode(name)
	node.Status.Allocatable = container("", amounts...).Resources.Requests
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

func gpus(prefix string, n int) []resourceapi.Device {
	var devices []resourceapi.Device
	for i := range n {
		devices = append(devices, withProfile(fmt.Sprintf("%s-%d", prefix, i), prefix))
	}
	return devices
}

func (c *cycle) filterOn(node fwk.NodeInfo) *fwk.Status {
	return c.plugin.Filter(c.ctx, c.state, c.pod, node)
}

// bindOn takes the pod to a node and returns it as it is then.
func (c *cycle) bindOn(node *framework.NodeInfo) *v1.Pod {
	c.t.Helper()
	c.placeOn(node)
	c.succeed("PreBind", c.preBind(node.Node().Name))
	c.succeed("Bind", c.bindPod(node.Node().Name))
	return c.api.pod(c.t, c.pod.Name)
}

func (c *cycle) bindPod(node string) *fwk.Status {
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: c.pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
	if err := c.api.client.CoreV1().Pods(c.pod.Namespace).Bind(c.ctx, binding, metav1.CreateOptions{}); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

// requestsOf returns the requests of a claim as "name class×count".
func requestsOf(claim *resourceapi.ResourceClaim) []string {
	var requests []string
	for _, r := range claim.Spec.Devices.Requests {
		requests = append(requests, fmt.Sprintf("%s %s×%d", r.Name, r.Exactly.DeviceClassName, r.Exactly.Count))
	}
	return requests
}

func mappingsOf(pod *v1.Pod) []string {
	var mappings []string
	for _, m := range pod.Status.ExtendedResourceClaimStatus.RequestMappings {
		mappings = append(mappings, fmt.Sprintf("%s %s: %s", m.ContainerName, m.ResourceName, m.RequestName))
	}
	return mappings
}

// fourContainers share three devices.
func fourContainers(pod *v1.Pod) *v1.Pod {
	pod.Spec.InitContainers = []v1.Container{container("ic1", gpu+"=1"), sidecar("sc", gpu+"=1"), container("ic2", gpu+"=2")}
	pod.Spec.Containers = []v1.Container{container("main", gpu+"=1")}
	return pod
}

// TestExtendedResources is scenario S14.
func TestExtendedResources(t *testing.T) {
	pod := fourContainers(newPod("p"))
	other := fourContainers(newPod("q"))
	r := newRig(t, "", mappedClass("gpu-a", 1, gpu, "g"), mappedClass("gpu-b", 2, gpu, "g"), newSlice("d1", gpus("g", 4)...), pod, other)

	got := r.cycle(pod).bindOn(nodeOffering("d1", gpu+"=0"))
	claims := r.api.specialClaims(t, pod)
	if len(claims) != 1 {
		t.Fatalf("got %d special claims, want 1", len(claims))
	}
	claim := claims[0]
	want := []string{"container-1-request-0 gpu-b×1", "container-2-request-0 gpu-b×1", "container-3-request-0 gpu-b×1"}
	if diff := cmp.Diff(want, requestsOf(claim)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	r.expect(claim.Name, []string{"g-0", "g-1", "g-2"}, []string{"uid-p"})
	if got.Status.ExtendedResourceClaimStatus.ResourceClaimName != claim.Name {
		t.Errorf("the status names claim %s, want %s", got.Status.ExtendedResourceClaimStatus.ResourceClaimName, claim.Name)
	}
	want = []string{
		"sc example.com/gpu: container-1-request-0", "ic1 example.com/gpu: container-1-request-0", "ic2 example.com/gpu: container-2-request-0",
		"main example.com/gpu: container-3-request-0", "ic2 example.com/gpu: container-3-request-0",
	}
	if diff := cmp.Diff(want, mappingsOf(got)); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
	if r.manager.ResourceClaims().GetPendingAllocation(podclaim.PlaceholderUID(pod.UID)) != nil {
		t.Error("the allocation is still pending")
	}

	// Where the plugin serves, there is no claim, also if there are devices.
	got = r.cycle(other).bindOn(nodeOffering("p1", gpu+"=4"))
	if claims := r.api.specialClaims(t, other); len(claims) != 0 || got.Status.ExtendedResourceClaimStatus != nil {
		t.Errorf("got claims %v and status %v, want none", claims, got.Status.ExtendedResourceClaimStatus)
	}
}

func TestExtendedResourcesPerNode(t *testing.T) {
	objects := []runtime.Object{
		mappedClass("gpu", 1, gpu, "g"), mappedClass("nic", 1, nic, "n"), newSlice("n1", append(gpus("g", 2), gpus("n", 2)...)...),
	}
	claimed := podOf("p", container("a", gpu+"=1"))
	claimed.Spec.ResourceClaims = newPod("", "c").Spec.ResourceClaims
	for name, tc := range map[string]struct {
		pod     *v1.Pod
		offered []string
		want    []string
		// wantRefused is set where the node is refused.
		wantRefused string
	}{
		"two resources, a request for each container": {
			pod:  podOf("p", container("a", gpu+"=1", nic+"=1"), container("b", gpu+"=1")),
			want: []string{"container-0-request-0 gpu×1", "container-1-request-0 gpu×1", "container-0-request-1 nic×1"},
		},
		"one of them by the plugin": {
			pod: podOf("p", container("a", gpu+"=1", nic+"=1")), offered: []string{gpu + "=8"},
			want: []string{"container-0-request-1 nic×1"},
		},
		"the name of the class": {
			pod:  podOf("p", container("a", "deviceclass.resource.kubernetes.io/gpu=2")),
			want: []string{"container-0-request-0 gpu×2"},
		},
		"both names of a class": {
			pod:  podOf("p", container("a", gpu+"=1", "deviceclass.resource.kubernetes.io/gpu=1")),
			want: []string{"container-0-request-0 gpu×1", "container-0-request-1 gpu×1"},
		},
		"beside a resource that no class serves": {
			pod: podOf("p", container("a", gpu+"=1", "example.com/fpga=1")), offered: []string{"example.com/fpga=1"},
			want: []string{"container-0-request-1 gpu×1"},
		},
		"beside a claim":               {pod: claimed, want: []string{"container-0-request-0 gpu×1"}},
		"too many":                     {pod: podOf("p", container("a", gpu+"=3")), wantRefused: "cannot allocate all claims: example.com/gpu for a: needs 3 devices, 2 match"},
		"the plugin's are not devices": {pod: podOf("p", container("a", gpu+"=3")), offered: []string{gpu + "=8"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", append(objects, tc.pod, classOf("any", ""), wantingClass(newClaim("c"), "any"))...)
			node := nodeOffering("n1", tc.offered...)
			c := r.cycle(tc.pod)
			if tc.wantRefused != "" {
				r.succeed("PreFilter", c.preFilter())
				wantRefusal(t, c.filterOn(node), fwk.UnschedulableAndUnresolvable, tc.wantRefused)
				return
			}
			got := c.bindOn(node)
			claims := r.api.specialClaims(t, tc.pod)
			if len(tc.want) == 0 {
				if len(claims) > 0 || got.Status.ExtendedResourceClaimStatus != nil {
					t.Errorf("got claims %v", claims)
				}
				return
			}
			if len(claims) != 1 {
				t.Fatalf("got %d claims, want 1", len(claims))
			}
			if diff := cmp.Diff(tc.want, requestsOf(claims[0])); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// classOf is a class of devices whose profile starts with a prefix.
func classOf(name, prefix string) *resourceapi.DeviceClass { return mappedClass(name, 0, "", prefix) }

func wantingClass(claim *resourceapi.ResourceClaim, class string) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = class
	return claim
}

// TestExtendedResourcesAllOrNothing: the pod's claim takes the device that the
// special claim could have had, unless both fit.
func TestExtendedResourcesAllOrNothing(t *testing.T) {
	pod := podOf("p", container("a", gpu+"=2"))
	pod.Spec.ResourceClaims = newPod("", "c").Spec.ResourceClaims
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newClaim("c"), newSlice("n1", gpus("g", 2)...), newSlice("n2", gpus("g", 3)...), pod)
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	if got := c.filterOn(nodeOffering("n1")); got.IsSuccess() {
		t.Error("two devices were enough for three")
	}
	r.succeed("Filter", c.filterOn(nodeOffering("n2")))
	r.succeed("Reserve", c.reserve("n2"))
	r.succeed("PreBind", c.preBind("n2"))
	given := append(devicesOf(r.api.claim(t, "c")), devicesOf(r.api.claim(t, podclaim.SpecialName(pod)))...)
	slices.Sort(given)
	if diff := cmp.Diff([]string{"g-0", "g-1", "g-2"}, given); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// TestSpecialClaimInFlight: its devices are taken from Reserve on.
func TestSpecialClaimInFlight(t *testing.T) {
	first, second := podOf("p", container("a", gpu+"=1")), podOf("q", container("a", gpu+"=1"))
	r := newRig(t, "", mappedClass("gpu", 1, gpu, "g"), newSlice("n1", gpus("g", 1)...), first, second)
	c := r.cycle(first)
	c.placeOn(nodeOffering("n1"))
	if len(r.api.writes()) > 0 || len(r.api.claims(t)) > 0 {
		t.Error("Reserve wrote something")
	}
	d := r.cycle(second)
	r.succeed("PreFilter", d.preFilter())
	if got := d.filterOn(nodeOffering("n1")); got.Code() != fwk.Unschedulable {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	c.unreserve("n1")
	r.cycle(second).bindOn(nodeOffering("n1"))
}

// TestClassEventsWakeWhomTheyConcern: only pods whose resource is served by another
// class than before.
func TestClassEventsWakeWhomTheyConcern(t *testing.T) {
	older, newer := mappedClass("gpu-a", 1, gpu, "g"), mappedClass("gpu-b", 2, gpu, "g")
	renamed := newer.DeepCopy()
	renamed.Spec.ExtendedResourceName = new(nic)
	asks := podOf("p", container("a", gpu+"=1"))
	asksNIC := podOf("p", container("a", nic+"=1"))
	asksOlder := podOf("p", container("a", "deviceclass.resource.kubernetes.io/gpu-a=1"))
	for name, tc := range map[string]struct {
		pod           *v1.Pod
		exist         []runtime.Object
		before, after *resourceapi.DeviceClass
		want          fwk.QueueingHint
	}{
		"a class appears":                      {asks, []runtime.Object{older}, nil, older, fwk.Queue},
		"a newer class appears":                {asks, []runtime.Object{older, newer}, nil, newer, fwk.Queue},
		"an older class appears":               {asks, []runtime.Object{older, newer}, nil, older, fwk.QueueSkip},
		"a class for something else":           {asksNIC, []runtime.Object{older}, nil, older, fwk.QueueSkip},
		"a class named by the pod":             {asksOlder, []runtime.Object{older, newer}, nil, older, fwk.Queue},
		"the newer class goes":                 {asks, []runtime.Object{older}, newer, nil, fwk.Queue},
		"the older class goes":                 {asks, []runtime.Object{newer}, older, nil, fwk.QueueSkip},
		"the last class goes":                  {asks, nil, older, nil, fwk.Queue},
		"the newer class serves others now":    {asks, []runtime.Object{older, renamed}, newer, renamed, fwk.Queue},
		"the newer class serves these now":     {asksNIC, []runtime.Object{older, renamed}, newer, renamed, fwk.Queue},
		"a class of the same name for neither": {asksOlder, []runtime.Object{older, renamed}, newer, renamed, fwk.QueueSkip},
		"a pod that asks for nothing":          {newPod("p"), []runtime.Object{older}, nil, older, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", tc.exist...)
			var before, after any
			if tc.before != nil {
				before = tc.before
			}
			if tc.after != nil {
				after = tc.after
			}
			got, err := r.plugin.hints.afterClassChange(klog.Background(), tc.pod, before, after)
			if err != nil || got != tc.want {
				t.Errorf("got %s, error %v; want %s", got, err, tc.want)
			}
		})
	}
}
