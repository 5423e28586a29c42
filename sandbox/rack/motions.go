// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/sandbox/cluster"
)

var (
	fabricResource = v1alpha1.SchemeGroupVersion.WithResource("fabrics")
	// AttachmentResource is that of device attachments.
	AttachmentResource = v1alpha1.SchemeGroupVersion.WithResource("deviceattachments")
)

// Installed reports whether there can be fabrics: the rack has been started.
func (r *Rack) Installed() bool { return r.installed.Load() }

// Fabrics reads the fabrics and their attachments. There are none before Start.
func (r *Rack) Fabrics(ctx context.Context) (*cluster.Fabrics, error) {
	fabrics := &cluster.Fabrics{}
	if !r.installed.Load() {
		return fabrics, nil
	}
	objects, err := r.in.Read(ctx, AttachmentResource, fabricResource)
	if err != nil {
		return nil, err
	}
	return fabrics, errors.Join(convert(objects[0], &fabrics.Attachments), convert(objects[1], &fabrics.Fabrics))
}

func convert[T any](objects []runtime.Object, items *[]T) error {
	for _, o := range objects {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("read %T: it is a %T", *items, o)
		}
		var item T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &item); err != nil {
			return err
		}
		*items = append(*items, item)
	}
	return nil
}

// fabricRuns tells whether the controller runs, is connected, and reaches the shelf's
// service if there is a shelf.
func (r *Rack) fabricRuns() bool {
	shelf := r.shelf()
	return r.controller.Connected() && (shelf == nil || shelf.service() != nil)
}

// Motions finds what moves because of a fabric. The fabrics have to be older than the state:
// the controller publishes what a fabric offers before it counts it in the fabric's status.
func (r *Rack) Motions(fabrics *cluster.Fabrics, state *cluster.State) []cluster.Motion {
	moving := r.driverMotions(state)
	if r.fabricRuns() {
		moving = append(moving, cluster.FindFabricMotions(state, fabrics)...)
		moving = append(moving, r.countMotions(fabrics)...)
	}
	return moving
}

// driverMotions finds drivers that have not published yet what there is.
func (r *Rack) driverMotions(state *cluster.State) []cluster.Motion {
	var moving []cluster.Motion
	for _, run := range r.driverRuns() {
		for _, node := range run.driver.Behind(state.Nodes, state.ResourceSlices) {
			moving = append(moving, cluster.Motion{Object: run.Name, What: "has not published the devices of node " + node, Timed: true})
		}
	}
	return moving
}

// countMotions finds fabrics that have not noticed which devices of the shelf are free.
func (r *Rack) countMotions(fabrics *cluster.Fabrics) []cluster.Motion {
	shelf := r.shelf()
	if shelf == nil {
		return nil
	}
	var moving []cluster.Motion
	for i := range fabrics.Fabrics {
		f := &fabrics.Fabrics[i]
		if free, sure := shelf.free(f); sure && int(f.Status.Devices.Free) != free {
			moving = append(moving, cluster.Motion{
				Object: "fabrics/" + f.Name, What: fmt.Sprintf("counts %d free devices and there are %d", f.Status.Devices.Free, free), Timed: true,
			})
		}
	}
	return moving
}

// free counts the devices of a fabric that are free. It is not sure while some of the
// shelf are broken: whether these are free depends on what was found out about them.
func (r *redfish) free(f *v1alpha1.Fabric) (free int, sure bool) {
	holds := r.holds()
	for i := range r.config.Blocks {
		b := &r.config.Blocks[i]
		state := holds[b.ID]
		if state.Broken || state.Hidden {
			return 0, false
		}
		if state.Host == "" && !state.Reserved && matches(f.Spec.Models, b.Manufacturer, b.Model, b.PartNumber) && !withheld(f, b.ID) {
			free++
		}
	}
	return free, true
}

// withheld tells whether a device is known not to be what its model promises.
func withheld(f *v1alpha1.Fabric, block string) bool {
	for i := range f.Status.Models {
		for _, d := range f.Status.Models[i].Withheld {
			if path.Base(d.Device) == block {
				return true
			}
		}
	}
	return false
}

// offerLimit bounds the wait for a fabric's offers before pods are created.
const offerLimit = 30 * time.Second

// WaitOffered waits until the free devices of all fabrics are offered, and those of
// drivers published, so that pods find them. It does not wait for what cannot come.
func (r *Rack) WaitOffered(ctx context.Context) error {
	if r.shelf() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, offerLimit)
	defer cancel()
	for {
		state, err := cluster.Read(ctx, r.in.Read)
		if err != nil {
			return err
		}
		fabrics, err := r.Fabrics(ctx)
		if err != nil {
			return err
		}
		moving := r.driverMotions(state)
		if r.fabricRuns() {
			fabrics.Attachments = nil
			moving = append(moving, cluster.FindFabricMotions(&cluster.State{}, fabrics)...)
		}
		if len(moving) == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", moving[0], ctx.Err())
		}
	}
}
