// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/part"
	"kerf.dev/kerf/sandbox/rack"
	"kerf.dev/kerf/scenario"
)

// Clear deletes everything in the cluster that matters to where pods run, and
// waits until it is gone. What a story still holds goes on before, and a scheduler that
// it has killed or cut off works again. Of a fabric nothing runs any more.
func Clear(ctx context.Context, s *sandbox.Sandbox) error {
	s.Holds().ReleaseAll()
	if err := mendPart(ctx, s, "scheduler"); err != nil {
		return err
	}
	if err := resetNamespace(ctx, s); err != nil {
		return err
	}
	err := s.Client().CoreV1().ResourceQuotas(scenario.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("clear the quotas: %w", err)
	}
	if err := clearFabric(ctx, s); err != nil {
		return fmt.Errorf("clear the fabric: %w", err)
	}
	var left []string
	err = poll(ctx, func() (bool, error) {
		state, err := s.State(ctx)
		if err != nil {
			return false, err
		}
		left, err = deleteAll(ctx, s, state, func(string) bool { return true })
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("clear the sandbox: %s: %w", strings.Join(left, " "), err)
	}
	return nil
}

// mendPart has a part run and reach the API server, whatever was done to it.
func mendPart(ctx context.Context, s *sandbox.Sandbox, name string) error {
	if err := s.Parts().Start(ctx, name, ""); !errors.Is(err, part.ErrRunning) {
		return err
	}
	return s.Parts().Reconnect(name)
}

// deleteAll deletes what is not on its way out yet, of the kinds that are wanted, and
// returns what is there.
func deleteAll(ctx context.Context, s *sandbox.Sandbox, state *cluster.State, wanted func(kind string) bool) (left []string, err error) {
	now := int64(0)
	background := metav1.DeletePropagationBackground
	for _, kind := range cluster.Kinds {
		if !wanted(kind.Resource.Resource) {
			continue
		}
		for _, o := range kind.Objects(state) {
			if kind.Resource.Resource == "namespaces" && builtIn(o.GetName()) {
				continue
			}
			left = append(left, kind.Resource.Resource+"/"+o.GetName())
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			err := s.Dynamic().Resource(kind.Resource).Namespace(o.GetNamespace()).
				Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) {
				return left, err
			}
		}
	}
	return left, nil
}

func builtIn(namespace string) bool {
	return namespace == metav1.NamespaceDefault || namespace == rack.Namespace || strings.HasPrefix(namespace, "kube-")
}

// resetNamespace removes the labels that a story has put on its namespace.
func resetNamespace(ctx context.Context, s *sandbox.Sandbox) error {
	namespaces := s.Client().CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, scenario.Namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var removals []string
	for label := range ns.Labels {
		if label != "kubernetes.io/metadata.name" {
			removals = append(removals, fmt.Sprintf("%q:null", label))
		}
	}
	if len(removals) == 0 {
		return nil
	}
	patch := `{"metadata":{"labels":{` + strings.Join(removals, ",") + `}}}`
	_, err = namespaces.Patch(ctx, scenario.Namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
