// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

// statusWriter writes what the status of a pod says of its devices.
type statusWriter struct {
	gates         gates
	handle        fwk.Handle
	client        kubernetes.Interface
	users         *ledger.Users
	writer        *podclaim.Writer
	specials      *ledger.Specials
	specialClaims *special.Claims
}

// podNews are what the status of a pod is to say. What is nil stays as it is.
type podNews struct {
	// named tells the kubelet which special claim the pod has and which container gets
	// what. It cannot be taken back.
	named *v1.PodExtendedResourceClaimStatus
	// statuses are what the devices take of the node. An empty list takes back what an
	// earlier attempt said.
	statuses []v1.NodeAllocatableResourceClaimStatus
}

// writeStatus tells everybody about the devices of the pod. It comes last, and all is
// one write: what a special claim takes of the node is only accepted where the status
// names the claim, and the name cannot be taken back. API servers of Kubernetes 1.37 do
// not accept it either way; then it stays untold, and is accounted for here.
func (w *statusWriter) writeStatus(ctx context.Context, a *attempt, pod *v1.Pod) error {
	news, err := w.newsOf(a, pod)
	if err != nil || news.named == nil && news.statuses == nil {
		return err
	}
	a.stated = news.statuses != nil
	err = w.write(ctx, pod, news)
	if a.special == nil || !refusesClaim(err, a.special.Claim.Name) {
		return err
	}
	w.handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, v1.EventTypeWarning, "NodeResourcesUntold", "Scheduling",
		"the API server does not accept what the devices for extended resources of the pod take of its node; kerf-scheduler accounts for it, the kubelet does not")
	news.statuses = slices.DeleteFunc(slices.Clone(news.statuses), func(s v1.NodeAllocatableResourceClaimStatus) bool {
		return s.ResourceClaimName == a.special.Claim.Name
	})
	if len(news.statuses) == 0 && !a.stale {
		news.statuses = nil
	}
	if news.named == nil && news.statuses == nil {
		return nil
	}
	return w.write(ctx, pod, news)
}

func (w *statusWriter) newsOf(a *attempt, pod *v1.Pod) (podNews, error) {
	var news podNews
	if w.gates.nodeResources && (len(a.statuses) > 0 || a.stale) {
		news.statuses = slices.Concat([]v1.NodeAllocatableResourceClaimStatus{}, a.statuses)
	}
	if a.special == nil {
		return news, nil
	}
	named := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: a.special.Claim.Name, RequestMappings: a.special.Special.Mappings}
	if !apiequality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, named) {
		news.named = named
	}
	return news, w.specialClaims.CheckClasses(a.special, pod)
}

// write writes the status of a pod and looks whether all of it was kept.
func (w *statusWriter) write(ctx context.Context, pod *v1.Pod, news podNews) error {
	patch := w.patchNews
	if news.named != nil {
		w.specials.SetNamed(pod.UID, news.named.ResourceClaimName)
		patch = w.patchName
	}
	written, err := patch(ctx, pod, news)
	if news.named != nil && err != nil && (apierrors.IsNotFound(err) || w.users.Gone(pod.Namespace, claim.AsConsumer(pod))) {
		// Nothing will tell of its end any more. There may be another of its name.
		w.specials.Forget(pod.UID)
	}
	switch {
	case err != nil && news.named != nil:
		return fmt.Errorf("pod %s: write status.extendedResourceClaimStatus: %w", klog.KObj(pod), err)
	case err != nil:
		return fmt.Errorf("pod %s: write status.nodeAllocatableResourceClaimStatuses: %w", klog.KObj(pod), err)
	case news.named != nil && !apiequality.Semantic.DeepEqual(written.Status.ExtendedResourceClaimStatus, news.named):
		return fmt.Errorf("pod %s: the API server did not keep status.extendedResourceClaimStatus; its feature gate DRAExtendedResource must be on as it is here", klog.KObj(pod))
	case news.statuses != nil && !apiequality.Semantic.DeepEqual(written.Status.NodeAllocatableResourceClaimStatuses, news.statuses):
		return fmt.Errorf("pod %s: the API server did not keep status.nodeAllocatableResourceClaimStatuses; its feature gate DRANodeAllocatableResources must be on as it is here", klog.KObj(pod))
	}
	return nil
}

// patchName writes the status of a pod that is not bound: on a node, where somebody
// else put it, it would wait for a claim that it does not need.
func (w *statusWriter) patchName(ctx context.Context, pod *v1.Pod, news podNews) (written *v1.Pod, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := w.writer.Current(ctx, pod)
		switch {
		case err != nil:
			return err
		case current == nil:
			return apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
		case current.Spec.NodeName != "":
			return fmt.Errorf("it is on node %s already", current.Spec.NodeName)
		}
		written, err = w.patchNews(ctx, current, news)
		return err
	})
	return written, err
}

// patchNews replaces what is to be replaced. It fails if the pod has changed where a name
// is written.
func (w *statusWriter) patchNews(ctx context.Context, pod *v1.Pod, news podNews) (*v1.Pod, error) {
	meta, status := map[string]any{"uid": pod.UID}, map[string]any{}
	if news.named != nil {
		meta["resourceVersion"] = pod.ResourceVersion
		status["extendedResourceClaimStatus"] = news.named
	}
	if news.statuses != nil {
		// An empty list is written as such: a field that is left out stays.
		status["nodeAllocatableResourceClaimStatuses"] = news.statuses
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "status": status})
	if err != nil {
		return nil, err
	}
	return w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}

// refusesClaim reports whether the API server does not accept what a claim takes of the
// node because of the claim's name.
func refusesClaim(err error, claim string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasPrefix(c.Field, "status.nodeAllocatableResourceClaimStatuses[") && strings.HasSuffix(c.Field, "].resourceClaimName") && strings.Contains(c.Message, claim)
	})
}
