// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"maps"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	ndftypes "k8s.io/component-helpers/nodedeclaredfeatures/types"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/sandbox/kubeversion"
)

// nodeAddress is the address of every node: nothing listens there.
const nodeAddress = "127.0.0.1"

// NewNode returns a ready hollow node of that name with default resources.
func NewNode(name string) *corev1.Node {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	Complete(node)
	return node
}

// Complete makes the object a ready node: it adds what a kubelet would report
// and the object does not have. It reports whether it changed anything.
func Complete(node *corev1.Node) bool {
	if hasReadyCondition(node) {
		return false
	}
	completeLabels(node)
	status := &node.Status
	if status.Capacity == nil {
		status.Capacity = maps.Clone(status.Allocatable)
	}
	status.Capacity = cluster.Ample(status.Capacity)
	status.Allocatable = withDefaults(status.Allocatable, status.Capacity)
	if status.DeclaredFeatures == nil {
		status.DeclaredFeatures = declaredFeatures()
	}
	if len(status.Addresses) == 0 {
		status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeAddress},
			{Type: corev1.NodeHostName, Address: node.Name},
		}
	}
	if status.NodeInfo.KubeletVersion == "" {
		status.NodeInfo.KubeletVersion = kubeversion.GitVersion()
		status.NodeInfo.OperatingSystem = "linux"
		status.NodeInfo.Architecture = runtime.GOARCH
		status.NodeInfo.ContainerRuntimeVersion = "hollow://"
	}
	now := metav1.Now()
	status.Conditions = append(status.Conditions, corev1.NodeCondition{
		Type:               corev1.NodeReady,
		Status:             corev1.ConditionTrue,
		Reason:             "KubeletReady",
		Message:            "hollow node is ready",
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	})
	return true
}

func hasReadyCondition(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return true
		}
	}
	return false
}

func completeLabels(node *corev1.Node) bool {
	changed := false
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for key, value := range map[string]string{
		corev1.LabelHostname:   node.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
	} {
		if _, ok := node.Labels[key]; !ok {
			node.Labels[key] = value
			changed = true
		}
	}
	return changed
}

func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	completed := maps.Clone(defaults)
	maps.Copy(completed, list)
	return completed
}

// declaredFeatures are the features (KEP-5328) that a kubelet of this version
// would declare with the feature gates of this process.
func declaredFeatures() []string {
	return nodedeclaredfeatures.DefaultFramework.DiscoverNodeFeatures(&ndftypes.NodeConfiguration{
		FeatureGates: gates{},
		Version:      utilversion.MustParse(kubeversion.GitVersion()),
	})
}

// gates shows the gates of this process to the feature framework, which asks
// for some that only exist in some components.
type gates struct{}

func (gates) Enabled(name string) bool {
	feature := featuregate.Feature(name)
	if _, known := utilfeature.DefaultMutableFeatureGate.GetAll()[feature]; !known {
		return false
	}
	return utilfeature.DefaultFeatureGate.Enabled(feature)
}

// syncNode completes a node that was created without the help of [Complete].
func (k *Kubelets) syncNode(ctx context.Context, name string) error {
	cached, err := k.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	if hasReadyCondition(cached) {
		return nil
	}
	node := cached.DeepCopy()
	if completeLabels(node) {
		if node, err = k.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("node %s: update labels: %w", name, err)
		}
	}
	if Complete(node) {
		if _, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("node %s: update status: %w", name, err)
		}
	}
	return nil
}
