// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// deniedDrivers are the drivers of a Fabric's models for whose claims the controller
// may not write where a device is. Their devices would arrive, and nobody be told. What
// cannot be found out is taken for permitted.
func (f *Fabrics) deniedDrivers(ctx context.Context, o *v1alpha1.Fabric) map[string]bool {
	asked, denied := map[string]bool{}, map[string]bool{}
	for i := range o.Spec.Models {
		driver := o.Spec.Models[i].Driver
		if asked[driver] {
			continue
		}
		asked[driver] = true
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: resourceapi.GroupName, Resource: "resourceclaims", Subresource: "driver",
				Verb: "arbitrary-node:update", Name: driver,
			},
		}}
		if err := f.client.Create(ctx, review); err != nil {
			f.log.Info("Cannot find out whether the status of claims may be written", "fabric", o.Name, "driver", driver, "err", err)
			continue
		}
		if s := review.Status; !s.Allowed && s.EvaluationError == "" {
			denied[driver] = true
		}
	}
	return denied
}

// notPermitted says of which drivers no device is offered, nil where there is none.
func notPermitted(f *v1alpha1.Fabric, denied map[string]bool) *metav1.Condition {
	var all []string
	told := map[string]bool{}
	for i := range f.Spec.Models {
		if driver := f.Spec.Models[i].Driver; denied[driver] && !told[driver] {
			told[driver] = true
			all = append(all, fmt.Sprintf("may not write the status of claims for driver %s: add it to resourceNames of ClusterRole kerf-controller:drivers", driver))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &metav1.Condition{
		Type: v1alpha1.FabricReady, Status: metav1.ConditionFalse, Reason: "NotPermitted",
		Message: shortened(strings.Join(all, "; ")), ObservedGeneration: f.Generation,
	}
}
