// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"slices"
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
	denied := map[string]bool{}
	for _, driver := range modelDrivers(o) {
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
	for _, driver := range modelDrivers(f) {
		if denied[driver] {
			all = append(all, fmt.Sprintf("may not write the status of claims for driver %s: add it to resourceNames of ClusterRole kerf-controller:drivers", driver))
		}
	}
	if len(all) == 0 {
		return nil
	}
	c := unready("NotPermitted", strings.Join(all, "; "))
	return &c
}

// modelDrivers are the drivers of a Fabric's models, each once.
func modelDrivers(f *v1alpha1.Fabric) []string {
	var drivers []string
	for i := range f.Spec.Models {
		if driver := f.Spec.Models[i].Driver; !slices.Contains(drivers, driver) {
			drivers = append(drivers, driver)
		}
	}
	return drivers
}
