// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// say writes on an attachment whether its device gets the claim's taint. Nothing is
// said of one that never had it.
func (g *Guard) say(ctx context.Context, a *v1alpha1.DeviceAttachment, guarded, arriving bool) error {
	c := metav1.Condition{Type: v1alpha1.AttachmentNodeGuarded, Status: metav1.ConditionTrue, Reason: "TaintLoaded",
		Message: "the driver publishes the device with a taint for the claim"}
	if !guarded {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "TaintLifted", "the device is not kept for the claim any more"
	}
	if !guarded && arriving {
		c.Reason, c.Message = "NotLoaded", "the file with the taint is not used, see the driver's log"
	}
	before := meta.FindStatusCondition(a.Status.Conditions, c.Type)
	if before == nil && !guarded && !arriving || before != nil && before.Status == c.Status && before.Reason == c.Reason {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		// The whole object goes back as it came: what this version does not know stays.
		o, err := g.config.Client.Resource(attachmentsResource).Get(ctx, a.Name, metav1.GetOptions{})
		if err != nil || o.GetUID() != a.UID {
			return err
		}
		if err := putCondition(o, c); err != nil {
			return err
		}
		_, err = g.config.Client.Resource(attachmentsResource).UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("attachment %s: status: %w", a.Name, err)
	}
	return nil
}

// putCondition leaves the other conditions as they are.
func putCondition(o *unstructured.Unstructured, c metav1.Condition) error {
	c.LastTransitionTime, c.ObservedGeneration = metav1.Now(), o.GetGeneration()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for i := range conditions {
		if old, ok := conditions[i].(map[string]any); ok && old["type"] == c.Type {
			if old["status"] == raw["status"] {
				raw["lastTransitionTime"] = old["lastTransitionTime"]
			}
			conditions[i] = raw
			return unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
		}
	}
	return unstructured.SetNestedSlice(o.Object, append(conditions, raw), "status", "conditions")
}
