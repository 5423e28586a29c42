// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package storm

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	kresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/sandbox/hollow"
)

const (
	driver = "gpu.example.com"
	// resource and implicit are the names by which pods ask for devices.
	resource  = "example.com/gpu"
	className = "gpu"
	implicit  = corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + className)
	// plain is a class for ordinary claims, own a template with one.
	plain, own = "plain", "own"
)

// node has devices, a simulated device plugin for resource, or both.
type node struct {
	name             string
	devices, offered int
}

// nodes have somewhat fewer devices than the pods ask for.
var nodes = []node{
	{"driver-0", 24, 0}, {"driver-1", 24, 0}, {"driver-2", 24, 0}, {"driver-3", 24, 0}, {"driver-4", 24, 0},
	{"plugin-0", 0, 24}, {"plugin-1", 0, 24}, {"both-0", 12, 12},
}

// furnish creates all but the pods.
func (st *storm) furnish() {
	st.createClass(plain, "")
	st.createClass(className, resource)
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: own}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: plain}}}
	_, err := st.Client().ResourceV1().ResourceClaimTemplates(corev1.NamespaceDefault).Create(st.t.Context(), template, metav1.CreateOptions{})
	st.must(err)
	for _, n := range nodes {
		st.createNode(n, true)
	}
}

func (st *storm) createClass(name, serves string) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}
	if serves != "" {
		class.Spec.ExtendedResourceName = &serves
	}
	_, err := st.Client().ResourceV1().DeviceClasses().Create(st.t.Context(), class, metav1.CreateOptions{})
	st.must(err)
}

func (st *storm) deleteClass(name string) {
	st.must(st.Client().ResourceV1().DeviceClasses().Delete(st.t.Context(), name, metav1.DeleteOptions{}))
}

func (st *storm) createNode(n node, withSlice bool) {
	if withSlice && n.devices > 0 {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &n.name, Pool: resourceapi.ResourcePool{Name: n.name, Generation: 1, ResourceSliceCount: 1}}
		for i := range n.devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		_, err := st.Client().ResourceV1().ResourceSlices().Create(st.t.Context(), slice, metav1.CreateOptions{})
		st.must(err)
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if n.offered > 0 {
		object.Status.Capacity = corev1.ResourceList{resource: *kresource.NewQuantity(int64(n.offered), kresource.DecimalSI)}
	}
	hollow.Complete(object)
	_, err := st.Client().CoreV1().Nodes().Create(st.t.Context(), object, metav1.CreateOptions{})
	st.must(err)
}

func (st *storm) deleteNode(n node, withSlice bool) {
	st.must(st.Client().CoreV1().Nodes().Delete(st.t.Context(), n.name, metav1.DeleteOptions{}))
	if withSlice && n.devices > 0 {
		st.must(st.Client().ResourceV1().ResourceSlices().Delete(st.t.Context(), n.name, metav1.DeleteOptions{}))
	}
}

// createPod creates one of several shapes; some run for a short time only.
func (st *storm) createPod() {
	st.created++
	st.counts["created"]++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", st.created)}}
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	switch main := container("main"); st.random.IntN(7) {
	case 0:
		pod.Spec.Containers = []corev1.Container{asking(main, resource, 1)}
	case 1:
		pod.Spec.Containers = []corev1.Container{asking(main, resource, 2)}
	case 2:
		pod.Spec.Containers = []corev1.Container{asking(main, implicit, 1)}
	case 3:
		pod.Spec.InitContainers = []corev1.Container{asking(container("first"), resource, 2)}
		pod.Spec.Containers = []corev1.Container{asking(main, resource, 1)}
	case 4:
		sidecar := asking(container("sidecar"), resource, 1)
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = []corev1.Container{sidecar}
		pod.Spec.Containers = []corev1.Container{asking(main, resource, 1)}
	case 5:
		pod.Spec.Containers = []corev1.Container{asking(asking(main, resource, 1), implicit, 1)}
	case 6:
		main.Resources.Claims = []corev1.ResourceClaim{{Name: own}}
		pod.Spec.Containers = []corev1.Container{asking(main, resource, 1)}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: own, ResourceClaimTemplateName: new(own)}}
	}
	if st.random.IntN(4) == 0 {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Annotations = map[string]string{hollow.RunForAnnotation: (time.Duration(st.random.IntN(3000)) * time.Millisecond).String()}
	}
	_, err := st.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(st.t.Context(), pod, metav1.CreateOptions{})
	st.must(err)
	st.pods = append(st.pods, pod.Name)
}

func container(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "none"}
}

func asking(c corev1.Container, name corev1.ResourceName, n int64) corev1.Container {
	limits := corev1.ResourceList{name: *kresource.NewQuantity(n, kresource.DecimalSI)}
	for other, amount := range c.Resources.Limits {
		limits[other] = amount
	}
	c.Resources.Limits = limits
	return c
}
