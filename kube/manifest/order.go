// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

// order has the kinds that others need, before those that need them. Kinds
// that are not listed come after these and before the pods.
var order = []string{
	"Namespace",
	"CustomResourceDefinition",
	"PriorityClass", "RuntimeClass", "StorageClass",
	"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ConfigMap", "Secret", "LimitRange", "ResourceQuota",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"Node",
	"DeviceClass",
	"ResourceSlice",
	"DeviceTaintRule",
	"ResourceClaimTemplate",
	"ResourceClaim",
	"Workload", "CompositePodGroup", "PodGroup",
	"Service", "PodDisruptionBudget",
}

// makesPods are the kinds that lead to pods, which need all of the others.
var makesPods = map[string]bool{
	"Pod": true, "ReplicationController": true, "ReplicaSet": true, "Deployment": true,
	"StatefulSet": true, "DaemonSet": true, "Job": true, "CronJob": true,
}

var ranks = func() map[string]int {
	ranks := make(map[string]int, len(order))
	for i, kind := range order {
		ranks[kind] = i
	}
	return ranks
}()

func rank(kind string) int {
	if rank, ok := ranks[kind]; ok {
		return rank
	}
	if makesPods[kind] {
		return len(order) + 1
	}
	return len(order)
}

// MakesPods reports whether the object is a pod or a controller of pods.
func (o *Object) MakesPods() bool { return makesPods[o.GetKind()] }

// clusterScoped are the known kinds that have no namespace.
var clusterScoped = map[string]bool{
	"Namespace": true, "Node": true, "PersistentVolume": true,
	"DeviceClass": true, "ResourceSlice": true, "DeviceTaintRule": true, "ResourcePoolStatusRequest": true,
	"ClusterRole": true, "ClusterRoleBinding": true, "ClusterTrustBundle": true, "CertificateSigningRequest": true,
	"PriorityClass": true, "RuntimeClass": true, "IngressClass": true,
	"StorageClass": true, "CSIDriver": true, "CSINode": true, "VolumeAttachment": true, "VolumeAttributesClass": true,
	"CustomResourceDefinition": true, "ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
	"MutatingAdmissionPolicy": true, "MutatingAdmissionPolicyBinding": true,
	"Fabric": true, "DeviceAttachment": true, "CompoundPolicy": true,
	"FlowSchema": true, "PriorityLevelConfiguration": true, "IPAddress": true, "ServiceCIDR": true,
}
