// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// hold has a Fabric stay when it is deleted, until its attachments have ended.
func (f *Fabrics) hold(ctx context.Context, name string) error {
	return f.change(ctx, name, func(o *v1alpha1.Fabric) bool {
		return o.DeletionTimestamp == nil && controllerutil.AddFinalizer(o, v1alpha1.AttachmentsFinalizer)
	})
}

// change writes a Fabric, as it is, unless there is nothing to change.
func (f *Fabrics) change(ctx context.Context, name string, change func(*v1alpha1.Fabric) bool) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o := &v1alpha1.Fabric{}
		if err := f.live.Get(ctx, client.ObjectKey{Name: name}, o); err != nil || !change(o) {
			return err
		}
		return f.client.Update(ctx, o)
	})
	return client.IgnoreNotFound(err)
}

// left lists the attachments of a fabric, as "name (phase)", sorted.
func (f *Fabrics) left(ctx context.Context, name string) ([]string, error) {
	var list v1alpha1.DeviceAttachmentList
	if err := f.live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the attachments of the fabric: %w", err)
	}
	var left []string
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.Fabric == name {
			left = append(left, fmt.Sprintf("%s (%s)", o.Name, phaseOf(o)))
		}
	}
	slices.Sort(left)
	return left, nil
}

// end lets a deleted Fabric go if nothing is attached for it any more. Otherwise it
// says what is. The loop is ended before the last look: it could make an attachment.
func (f *Fabrics) end(ctx context.Context, o *v1alpha1.Fabric) (ended bool, err error) {
	left, err := f.left(ctx, o.Name)
	if err == nil && len(left) == 0 {
		f.stop(o.Name)
		left, err = f.left(ctx, o.Name)
	}
	if err != nil {
		return false, err
	}
	if len(left) > 0 {
		return false, f.say(ctx, o, metav1.Condition{
			Type: v1alpha1.FabricDeleting, Status: metav1.ConditionTrue, Reason: "AttachmentsLeft",
			Message: shortened(fmt.Sprintf("%d attachments must end first, each once no claim uses its device: %s", len(left), strings.Join(left, ", "))),
		})
	}
	return true, f.change(ctx, o.Name, func(o *v1alpha1.Fabric) bool {
		return o.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(o, v1alpha1.AttachmentsFinalizer)
	})
}

// say writes a condition of a Fabric.
func (f *Fabrics) say(ctx context.Context, o *v1alpha1.Fabric, c metav1.Condition) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &v1alpha1.Fabric{}
		if err := f.live.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
			return err
		}
		now.Status.ObservedGeneration, c.ObservedGeneration = o.Generation, o.Generation
		apimeta.SetStatusCondition(&now.Status.Conditions, c)
		return f.client.Status().Update(ctx, now)
	})
	return client.IgnoreNotFound(err)
}

// sameService refuses another manager than the one that has attached devices: it
// knows none of them, or others by the same names.
func (f *Fabrics) sameService(ctx context.Context, o *v1alpha1.Fabric, manager Service) error {
	last := o.Status.Service
	if last == nil || last.Endpoint == o.Spec.Redfish.Endpoint {
		return nil
	}
	left, err := f.left(ctx, o.Name)
	if err != nil || len(left) == 0 {
		return err
	}
	asking, asked := context.WithTimeoutCause(ctx, askTimeout, &fabric.LimitError{What: fmt.Sprintf("no answer in %v", askTimeout)})
	defer asked()
	uuid, err := manager.Service(asking)
	if err != nil {
		return fmt.Errorf("spec.redfish.endpoint: cannot be asked whether it is the service at %s, which has attached %d devices: %w", last.Endpoint, len(left), loginError(o, err))
	}
	if uuid == "" || uuid != last.UUID {
		return fmt.Errorf("spec.redfish.endpoint: service %q is not the one at %s (%q), which has attached %d devices: change it back, or delete the attachments first",
			uuid, last.Endpoint, last.UUID, len(left))
	}
	return nil
}
