// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	corenamespace "k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	// The scheme has the groups that are installed.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"

	"kerf.dev/kerf/kube/manifest"
)

// strategy is how kube-apiserver creates objects of a kind, and writes their status
// where it is a part of manifests and not written with the rest.
type strategy struct {
	create rest.RESTCreateStrategy
	status rest.RESTUpdateStrategy
}

type strategies map[schema.GroupKind]strategy

// newStrategies are kube-apiserver's. Whoever writes objects may do everything.
func newStrategies(namespaces corev1client.NamespaceInterface) strategies {
	var anybody authorizer.UnconditionalAuthorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	claim := resourceclaim.NewStrategy(namespaces, anybody)
	return strategies{
		{Group: "resource.k8s.io", Kind: "DeviceClass"}:           {create: deviceclass.Strategy},
		{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:       {create: devicetaintrule.Strategy},
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:         {create: resourceslice.Strategy},
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}:         {create: claim, status: resourceclaim.NewStatusStrategy(claim)},
		{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}: {create: resourceclaimtemplate.NewStrategy(namespaces)},
		{Kind: "Namespace"}:                  {create: corenamespace.Strategy},
		{Kind: "Node"}:                       {create: node.Strategy},
		{Kind: "Pod"}:                        {create: pod.Strategy},
		{Kind: "ReplicationController"}:      {create: replicationcontroller.Strategy},
		{Kind: "ResourceQuota"}:              {create: resourcequota.Strategy},
		{Group: "apps", Kind: "Deployment"}:  {create: deployment.Strategy},
		{Group: "apps", Kind: "ReplicaSet"}:  {create: replicaset.Strategy},
		{Group: "apps", Kind: "StatefulSet"}: {create: statefulset.Strategy},
		{Group: "apps", Kind: "DaemonSet"}:   {create: daemonset.Strategy},
		{Group: "batch", Kind: "Job"}:        {create: job.Strategy},
		{Group: "batch", Kind: "CronJob"}:    {create: cronjob.Strategy},
	}
}

// namespacesOf lets the rules for claims see namespaces. They only ever get one, by
// name.
type namespacesOf struct {
	corev1client.NamespaceInterface
	known func(name string) *corev1.Namespace
}

// Get returns the namespace, or an empty one.
func (n namespacesOf) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	if known := n.known(name); known != nil {
		return known, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// namespacesIn finds those of a set.
func namespacesIn(set *manifest.Set) func(name string) *corev1.Namespace {
	return func(name string) *corev1.Namespace {
		for _, object := range set.Objects {
			if object.GetKind() == "Namespace" && object.GetName() == name {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: object.GetLabels()}}
			}
		}
		return nil
	}
}
