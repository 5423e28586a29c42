// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	hostileDriver = "hostile.example.com"
	hostileWorld  = `
apiVersion: v1
kind: Namespace
metadata: {name: hostile}
---
apiVersion: v1
kind: Namespace
metadata: {name: calm}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: hostile}
spec:
  selectors: [{cel: {expression: device.driver == "hostile.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: calm}
spec:
  selectors: [{cel: {expression: device.driver == "calm.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: calm}
spec:
  driver: calm.example.com
  nodeName: node-1
  pool: {name: calm, generation: 1, resourceSliceCount: 1}
  devices: [{name: d0}, {name: d1}, {name: d2}]
`
)

// testHostilePods has a user of a namespace create pods that take a scheduler as long
// as the API allows, in bulk. Pods of another namespace that come later are placed
// while those wait.
func testHostilePods(t *testing.T, s *Sandbox) {
	apply(t, s, hostileWorld)
	for _, node := range []string{"node-1", "node-2"} {
		for _, slice := range hostileSlices(node) {
			if _, err := s.Client().ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var hostile, calm []*corev1.Pod
	for i := range 3 {
		hostile = append(hostile,
			podWithClaims(t, s, "hostile", fmt.Sprintf("selectors-%d", i), 1, dearSelectors(i)),
			podWithClaims(t, s, "hostile", fmt.Sprintf("shares-%d", i), 1, tightShares()),
			podWithClaims(t, s, "hostile", fmt.Sprintf("refusal-%d", i), 6, alikeInEverything("plain")),
			podWithClaims(t, s, "hostile", fmt.Sprintf("partitions-%d", i), 12, alikeInEverything("partition")))
		calm = append(calm,
			podWithClaims(t, s, "calm", fmt.Sprintf("with-%d", i), 1, oneCalm()),
			podWithClaims(t, s, "calm", fmt.Sprintf("without-%d", i), 0, oneCalm()))
	}
	for _, pod := range append(hostile, calm...) {
		if _, err := s.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	created := time.Now()
	for _, pod := range calm {
		awaitPlaced(t, s, pod.Name)
		t.Logf("pod calm/%s was placed within %s", pod.Name, time.Since(created).Round(10*time.Millisecond))
	}
	again := podWithClaims(t, s, "calm", "again", 0, oneCalm())
	if _, err := s.Client().CoreV1().Pods("calm").Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created = time.Now()
	awaitPlaced(t, s, again.Name)
	t.Logf("pod calm/%s, which came later, was placed within %s", again.Name, time.Since(created).Round(10*time.Millisecond))
	pods, err := s.Client().CoreV1().Pods("hostile").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != len(hostile) {
		t.Fatalf("got %d hostile pods, want %d, error %v", len(pods.Items), len(hostile), err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" {
			t.Errorf("pod %s is on %s: it was not in the way", pod.Name, pod.Spec.NodeName)
		}
		for _, c := range pod.Status.Conditions {
			t.Logf("%s: %s", pod.Name, c.Message)
		}
	}
	clearHostile(t, s)
}

func clearHostile(t *testing.T, s *Sandbox) {
	t.Helper()
	deleteNamespace(t, s, "hostile")
	deleteNamespace(t, s, "calm")
	resources := s.Client().ResourceV1()
	for _, class := range []string{"hostile", "calm"} {
		if err := resources.DeviceClasses().Delete(t.Context(), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, slice := range []string{"calm", "node-1-devices", "node-1-counters", "node-2-devices", "node-2-counters"} {
		if err := resources.ResourceSlices().Delete(t.Context(), slice, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// awaitPlaced waits until the pod has its node.
func awaitPlaced(t *testing.T, s *Sandbox, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		pod, err := s.Client().CoreV1().Pods("calm").Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	if err != nil {
		t.Fatalf("pod calm/%s has no node: %v", name, err)
	}
}

func oneCalm() resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "calm"}}}}
}

// podWithClaims returns a pod and creates so many claims for it that are alike.
func podWithClaims(t *testing.T, s *Sandbox, namespace, name string, claims int, spec resourceapi.DeviceClaim) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}}
	for i := range claims {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)}, Spec: resourceapi.ResourceClaimSpec{Devices: spec}}
		if _, err := s.Client().ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		entry := fmt.Sprintf("c%d", i)
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: entry, ResourceClaimName: &claim.Name})
		pod.Spec.Containers[0].Resources.Claims = append(pod.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: entry})
	}
	return pod
}

// hostileSlices are devices of a node: some are plain, some are shared, and some draw
// on the counters of a card.
func hostileSlices(node string) []*resourceapi.ResourceSlice {
	slice := func(name string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: hostileDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2},
		}}
	}
	counters, devices := slice("counters"), slice("devices")
	for card := range int64(2) {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: fmt.Sprintf("card-%d", card), Counters: map[string]resourceapi.Counter{"slices": {Value: *resource.NewQuantity(7, resource.DecimalSI)}}})
	}
	for i := range 32 {
		d := resourceapi.Device{Name: fmt.Sprintf("d%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: new("plain")}}}
		switch {
		case i < 4:
			d.Attributes["kind"] = resourceapi.DeviceAttribute{StringValue: new("shared")}
			d.AllowMultipleAllocations = new(true)
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"c0": stepped(), "c1": stepped()}
		case i < 18:
			d.Attributes["kind"] = resourceapi.DeviceAttribute{StringValue: new("partition")}
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: fmt.Sprintf("card-%d", i%2), Counters: map[string]resourceapi.Counter{"slices": {Value: *resource.NewQuantity(int64(1+i%4), resource.DecimalSI)}}}}
		}
		for a := range 28 {
			d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("a%d", a))] = resourceapi.DeviceAttribute{IntValue: new(int64(0))}
		}
		devices.Spec.Devices = append(devices.Spec.Devices, d)
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

// stepped is a capacity of 1000 in parts of any size.
func stepped() resourceapi.DeviceCapacity {
	q := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	return resourceapi.DeviceCapacity{Value: *q(1000), RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: q(1), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q(1), Max: q(1000), Step: q(1)},
	}}
}

func hostileRequest(name string, selectors ...string) resourceapi.DeviceSubRequest {
	sub := resourceapi.DeviceSubRequest{Name: name, DeviceClassName: "hostile"}
	for _, expression := range selectors {
		sub.Selectors = append(sub.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return sub
}

// dearSelectors asks in eight alternatives for devices that there are none of, with
// expressions that cost nearly as much as may be.
func dearSelectors(n int) resourceapi.DeviceClaim {
	request := resourceapi.DeviceRequest{Name: "r"}
	for a := range 8 {
		var expressions []string
		for e := range 4 {
			body := "true"
			for depth := range 5 {
				body = fmt.Sprintf("[%s%d].all(v%d,%s)", strings.Repeat("1,", 10), (n*32+a*4+e)>>depth, depth, body)
			}
			expressions = append(expressions, body+fmt.Sprintf(` && device.attributes["%s"].a0 == %d`, hostileDriver, e/3))
		}
		request.FirstAvailable = append(request.FirstAvailable, hostileRequest(fmt.Sprintf("a%d", a), expressions...))
	}
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}
}

// tightShares asks for fifteen shares of which three fit on each of four devices: more
// than a quarter each, less than everything together.
func tightShares() resourceapi.DeviceClaim {
	var claim resourceapi.DeviceClaim
	for i := range int64(15) {
		claim.Requests = append(claim.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "hostile", Selectors: ofKind("shared"), Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
				"c0": *resource.NewQuantity(255+i, resource.DecimalSI), "c1": *resource.NewQuantity(255+14-i, resource.DecimalSI),
			}},
		}})
	}
	return claim
}

func ofKind(kind string) []resourceapi.DeviceSelector {
	return hostileRequest("", fmt.Sprintf(`device.attributes["%s"].kind == "%s"`, hostileDriver, kind)).Selectors
}

// alikeInEverything asks for more devices than there are, with as many alternatives
// and constraints as may be: which of them are in the way has many answers.
func alikeInEverything(kind string) resourceapi.DeviceClaim {
	var claim resourceapi.DeviceClaim
	for r := range 32 {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", r)}
		for a := range 8 {
			sub := hostileRequest(fmt.Sprintf("a%d", a))
			sub.Selectors = ofKind(kind)
			request.FirstAvailable = append(request.FirstAvailable, sub)
		}
		claim.Requests = append(claim.Requests, request)
	}
	for a := range 28 {
		claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{MatchAttribute: new(resourceapi.FullyQualifiedName(fmt.Sprintf("%s/a%d", hostileDriver, a)))})
	}
	return claim
}
