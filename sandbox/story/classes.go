// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/scenario"
)

// served is the extended resource that a class has the devices for, "" for other objects.
func served(o scenario.Object) string {
	class, ok := o.(*resourceapi.DeviceClass)
	if !ok || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *class.Spec.ExtendedResourceName
}

// createNewest creates a class that is newer than all others for its extended resource:
// creation has a timestamp in seconds, and of two classes of the same second the name
// decides.
func (b *backend) createNewest(class scenario.Object) error {
	all, err := b.sandbox.Client().ResourceV1().DeviceClasses().List(b.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var last int64
	for i := range all.Items {
		if served(&all.Items[i]) == served(class) {
			last = max(last, all.Items[i].CreationTimestamp.Unix())
		}
	}
	err = poll(b.ctx, func() (bool, error) { return time.Now().Unix() > last, nil })
	if err != nil {
		return fmt.Errorf("class %s: wait for the second after that of the other classes for %s: %w", class.GetName(), served(class), err)
	}
	return b.create(class)
}
