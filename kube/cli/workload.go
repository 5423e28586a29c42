// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/rules"
)

// addWorkload adds the pods that a controller would make, NAME-0 to NAME-N. Those
// of a DaemonSet or CronJob depend on more than the object.
func (f *files) addWorkload(ctx context.Context, server *rules.Rules, object *manifest.Object, namespace string) error {
	f.defaultNamespace(object, namespace)
	if !scheme.Scheme.Recognizes(object.GroupVersionKind()) {
		return object.Errorf("apiVersion", "there is no %s in %s", object.GetKind(), object.GetAPIVersion())
	}
	typed, err := server.Admit(ctx, object)
	if err != nil {
		return err
	}
	switch w := typed.(type) {
	case *appsv1.Deployment:
		return f.addReplicas(object, "spec.replicas", w.Spec.Replicas, &w.Spec.Template)
	case *appsv1.StatefulSet:
		return f.addReplicas(object, "spec.replicas", w.Spec.Replicas, &w.Spec.Template)
	case *appsv1.ReplicaSet:
		return f.addReplicas(object, "spec.replicas", w.Spec.Replicas, &w.Spec.Template)
	case *batchv1.Job:
		n, field := w.Spec.Parallelism, "spec.parallelism"
		if completions := w.Spec.Completions; completions != nil && n != nil && *n > *completions {
			n, field = completions, "spec.completions"
		}
		return f.addReplicas(object, field, n, &w.Spec.Template)
	default:
		f.ignored = append(f.ignored, object.Describe())
	}
	return nil
}

// maxPods is how many pods manifests may stand for: those of the largest cluster
// that Kubernetes is made for.
const maxPods = 150_000

// addReplicas adds as many pods as the field says, one where it says nothing.
func (f *files) addReplicas(object *manifest.Object, field string, replicas *int32, template *v1.PodTemplateSpec) error {
	n := 1
	if replicas != nil {
		n = int(*replicas)
	}
	switch {
	case n < 0:
		return object.Errorf(field, "is %d, want 0 or more", n)
	case len(f.listed)+n > maxPods:
		return object.Errorf(field, "is %d; with it the manifests stand for more than %d pods, which is more than a cluster can have", n, maxPods)
	}
	made := &v1.Pod{Spec: template.Spec}
	rules.Default(made)
	for i := range n {
		f.addPod(object, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: fmt.Sprintf("%s-%d", object.GetName(), i), Labels: template.Labels},
			Spec:       made.Spec,
		})
	}
	return nil
}
