// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// carrier carries steps out. It may be used by several goroutines at once.
type carrier struct {
	fabric *v1alpha1.Fabric
	// client writes; live reads what is there now, past all caches.
	client  client.Client
	live    client.Reader
	manager Service
	tell    *teller
}

// manages tells whether an action is one of the fabric's manager.
func manages(action fabric.Action) bool {
	switch action.(type) {
	case fabric.CallAttach, fabric.CallDetach, fabric.PollOperation, fabric.ReadInventory:
		return true
	default:
		return false
	}
}

// out does what an action says. The pools are those that the driver of a guard has on its
// node.
func (c *carrier) out(ctx context.Context, action fabric.Action, pools []string) done {
	var d done
	o := &d.outcome
	switch action := action.(type) {
	case fabric.ReadInventory:
		if o.Inventory, o.Err = c.manager.Inventory(ctx); o.Err == nil {
			d.service, o.Err = c.manager.Service(ctx)
		}
	case fabric.CallAttach:
		o.Operation, o.Err = c.manager.Attach(ctx, action.Device, action.Machine)
	case fabric.CallDetach:
		o.Operation, o.Err = c.manager.Detach(ctx, action.Device, action.Machine)
	case fabric.PollOperation:
		o.Operation, o.Err = c.manager.Operation(ctx, action.ID)
	case fabric.CreateAttachment:
		d.seen, o.Err = c.create(ctx, &action.Attachment)
	case fabric.RecordStatus:
		o.Err = c.record(ctx, action)
	case fabric.DeleteAttachment:
		o.Err = c.remove(ctx, action.Name)
	case fabric.Withhold:
		o.Err = c.withhold(ctx, &action.Withheld)
	case fabric.SetGuard:
		o.Err = c.setGuard(ctx, &action, pools)
	case fabric.SetCondition:
		o.Err = c.setCondition(ctx, action)
	default:
		o.Err = fmt.Errorf("the planner wants %T, which the controller does not know", action)
	}
	o.Err = loginError(c.fabric, o.Err)
	return d
}

// create writes an intent. It returns the object that is there, written now or
// before.
func (c *carrier) create(ctx context.Context, a *fabric.Attachment) (*v1alpha1.DeviceAttachment, error) {
	o := &v1alpha1.DeviceAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Finalizers: []string{v1alpha1.DetachFinalizer}},
		Spec:       specFor(a.Spec),
	}
	err := c.client.Create(ctx, o)
	if err == nil {
		return o, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	there := &v1alpha1.DeviceAttachment{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return nil, err
	}
	if there.Spec.Fabric != o.Spec.Fabric {
		return nil, fmt.Errorf("attachment %s is of fabric %s, want %s: delete it", o.Name, there.Spec.Fabric, o.Spec.Fabric)
	}
	return there, nil
}

// record writes a status on top of the one before it. The node writes a condition of
// its own: that is no other revision, and the write is tried again.
func (c *carrier) record(ctx context.Context, action fabric.RecordStatus) error {
	o, before := &v1alpha1.DeviceAttachment{}, v1alpha1.Phase("")
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		*o = v1alpha1.DeviceAttachment{}
		if err := c.live.Get(ctx, client.ObjectKey{Name: action.Name}, o); err != nil {
			return err
		}
		if o.Status.Revision != action.Status.Revision-1 {
			return fmt.Errorf("attachment %s has revision %d, want %d: somebody else wrote it", o.Name, o.Status.Revision, action.Status.Revision-1)
		}
		before = o.Status.Phase
		o.Status = statusFor(action.Status, o.Status.Conditions)
		// The version that was read goes along, so a write in between is a conflict.
		return c.client.Status().Update(ctx, o)
	})
	if err != nil {
		return err
	}
	if o.Status.Phase != before {
		c.tell.phase(ctx, o)
	}
	return nil
}

func (c *carrier) remove(ctx context.Context, name string) error {
	o := &v1alpha1.DeviceAttachment{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		*o = v1alpha1.DeviceAttachment{}
		if err := c.live.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		if controllerutil.RemoveFinalizer(o, v1alpha1.DetachFinalizer) {
			return c.client.Update(ctx, o)
		}
		return nil
	})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.client.Delete(ctx, o, client.Preconditions{UID: &o.UID}))
}
