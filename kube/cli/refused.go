// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/lint"
)

// refusals are what an API server of this version says against objects that another one
// took: those of a dump or cluster. Manifests were judged when they were read.
func (in *input) refusals(ctx context.Context) ([]lint.Refusal, error) {
	server, err := rules.New(allowsAdmin)
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	var refusals []lint.Refusal
	for object := range in.dump.All {
		refusal := lint.Refusal{Kind: cluster.KindOf(object), Namespace: object.GetNamespace(), Name: object.GetName()}
		if at := in.position(identity(refusal.Kind, refusal.Namespace, refusal.Name)); at.in != nil && at.path == "" {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reasons, err := server.Judge(ctx, dump.Completed(object))
		if err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("validate %s: %w", identity(refusal.Kind, refusal.Namespace, refusal.Name), err)}
		}
		for _, reason := range reasons {
			refusal.Field, refusal.Problem = reason.Field, reason.Message
			refusals = append(refusals, refusal)
		}
	}
	return refusals, nil
}

// allowsAdmin is a namespace that allows admin access: who has it got it when the
// namespace did.
func allowsAdmin(name string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"}}}
}
