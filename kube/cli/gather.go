// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kerf.dev/kerf/dump"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// lister lists one kind, in a namespace where it has any.
type lister struct {
	kind       string
	namespaced bool
	list       func(ctx context.Context, client kubernetes.Interface, namespace string, o metav1.ListOptions) (runtime.Object, error)
}

// listers has all kinds of a dump.
var listers = []lister{
	{"nodes", false, func(ctx context.Context, c kubernetes.Interface, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Nodes().List(ctx, o)
	}},
	{"namespaces", false, func(ctx context.Context, c kubernetes.Interface, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Namespaces().List(ctx, o)
	}},
	{"deviceclasses", false, func(ctx context.Context, c kubernetes.Interface, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return c.ResourceV1().DeviceClasses().List(ctx, o)
	}},
	{"resourceslices", false, func(ctx context.Context, c kubernetes.Interface, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return c.ResourceV1().ResourceSlices().List(ctx, o)
	}},
	{"devicetaintrules", false, func(ctx context.Context, c kubernetes.Interface, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return c.ResourceV1().DeviceTaintRules().List(ctx, o)
	}},
	{"resourcequotas", true, func(ctx context.Context, c kubernetes.Interface, ns string, o metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().ResourceQuotas(ns).List(ctx, o)
	}},
	{"resourceclaimtemplates", true, func(ctx context.Context, c kubernetes.Interface, ns string, o metav1.ListOptions) (runtime.Object, error) {
		return c.ResourceV1().ResourceClaimTemplates(ns).List(ctx, o)
	}},
	{"resourceclaims", true, func(ctx context.Context, c kubernetes.Interface, ns string, o metav1.ListOptions) (runtime.Object, error) {
		return c.ResourceV1().ResourceClaims(ns).List(ctx, o)
	}},
	{"pods", true, func(ctx context.Context, c kubernetes.Interface, ns string, o metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Pods(ns).List(ctx, o)
	}},
}

// gather reads a cluster. What the user may not list in all namespaces is listed
// in the given one, and what they may not list at all is left out; both are gaps
// of the dump.
func gather(ctx context.Context, client kubernetes.Interface, namespace string) (*dump.Dump, error) {
	d := dump.New()
	for _, l := range listers {
		gap := dump.Gap{Resource: l.kind}
		err := l.all(ctx, client, metav1.NamespaceAll, d)
		if apierrors.IsForbidden(err) && l.namespaced {
			if err = l.all(ctx, client, namespace, d); err == nil {
				gap.OnlyIn = namespace
				d.Missing = append(d.Missing, gap)
			}
		}
		switch {
		case apierrors.IsForbidden(err):
			d.Missing = append(d.Missing, gap)
		case apierrors.IsNotFound(err) && l.kind == "devicetaintrules":
			gap.NotServed = true
			d.Missing = append(d.Missing, gap)
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the cluster does not serve %s of resource.k8s.io/v1, which kerf needs: %w", l.kind, err)
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", l.kind, err)
		}
	}
	return d, nil
}

// all adds the objects of one kind, page by page. Nothing is added on errors.
func (l *lister) all(ctx context.Context, client kubernetes.Interface, namespace string, to *dump.Dump) error {
	options := metav1.ListOptions{Limit: pageSize}
	var found []runtime.Object
	for {
		page, err := l.list(ctx, client, namespace, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// The list became too old between two pages; ask for it at once.
			options, found = metav1.ListOptions{}, nil
			continue
		} else if err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		found = append(found, items...)
		list, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	var wrong []error
	for _, object := range found {
		wrong = append(wrong, to.Add(object))
	}
	return errors.Join(wrong...)
}

// cluster reads the cluster of the flags.
func (a *app) cluster(ctx context.Context) (*dump.Dump, error) {
	namespace, err := a.namespace(false)
	if err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	d, err := gather(ctx, client, namespace)
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("read the cluster: %w", err)}
	}
	return d, nil
}

// unconfigured is the server that kubectl, too, assumes without a kubeconfig.
const unconfigured = "http://localhost:8080"

func (a *app) client() (kubernetes.Interface, error) {
	config, err := a.config.ToRESTConfig()
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("no cluster: %w; use --kubeconfig, or -f for a dump or manifests", err)}
	}
	raw, err := a.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("read the kubeconfig: %w", err)}
	}
	if clientcmdapi.IsConfigEmpty(&raw) && config.Host == unconfigured {
		return nil, &exitError{exitFailed, errors.New("no cluster: there is no kubeconfig; use --kubeconfig, or -f for a dump or manifests")}
	}
	// What is read once does not wait for a client-side limit.
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("connect to the cluster: %w", err)}
	}
	return client, nil
}

// checkConfigFlags finds what is wrong with the flags that lead to the cluster,
// before anything is said about the cluster.
func (a *app) checkConfigFlags() error {
	if timeout := *a.config.Timeout; timeout != "" {
		if _, err := clientcmd.ParseTimeout(timeout); err != nil {
			return badInput("--request-timeout %q is not a duration; say 30s, 2m or 0", timeout)
		}
	}
	if file := *a.config.KubeConfig; file != "" {
		if _, err := os.Stat(file); err != nil {
			return badInput("--kubeconfig: %w", err)
		}
	}
	if name := *a.config.Context; name != "" {
		raw, err := a.config.ToRawKubeConfigLoader().RawConfig()
		if err == nil && raw.Contexts[name] == nil {
			return badInput("--context %q: the kubeconfig has no such context; look with kubectl config get-contexts", name)
		}
	}
	return nil
}
