// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"maps"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/kube/augment"
)

// instance is the driver's process on one node.
type instance struct {
	cancel  context.CancelFunc
	ended   chan struct{}
	changed chan struct{} // room for one
}

// begin starts the process. The caller holds the lock.
func (d *Driver) begin(ctx context.Context, node string, uid types.UID) *instance {
	ctx, cancel := context.WithCancel(ctx)
	i := &instance{cancel: cancel, ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	go func() {
		defer close(i.ended)
		defer cancel()
		d.report(ctx, node, d.serve(ctx, i, node, uid))
	}()
	return i
}

// stop ends the process and waits for its end. There may be none.
func (i *instance) stop() {
	if i != nil {
		i.cancel()
		<-i.ended
	}
}

// wake says that the hardware has changed.
func (i *instance) wake() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// serve publishes what the node has until the context ends.
func (d *Driver) serve(ctx context.Context, i *instance, node string, uid types.UID) error {
	directory := d.Directory(node)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName:   d.options.Name,
		KubeClient:   d.options.Client,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node, UID: uid},
		ErrorHandler: func(ctx context.Context, err error, _ string) { d.report(ctx, node, err) },
	})
	if err != nil {
		return err
	}
	defer controller.Stop()
	publisher, err := augment.NewPublisher(ctx, augment.Config{
		Directory: directory, Driver: d.options.Name,
		Publish: func(_ context.Context, resources resourceslice.DriverResources) error {
			controller.Update(&resources)
			return nil
		},
		Report: func(err error) { d.report(ctx, node, err) },
	})
	if err != nil {
		return err
	}
	defer publisher.Close()
	if d.options.Attachments != nil {
		client, err := d.options.Attachments(node)
		if err != nil {
			return err
		}
		guard, err := augment.NewGuard(ctx, augment.GuardConfig{Client: client, Node: node, Publisher: publisher})
		if err != nil {
			return err
		}
		defer guard.Close()
	}
	for {
		if err := publisher.Publish(ctx, d.resources(node)); err != nil {
			return err
		}
		select {
		case <-i.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(d.options.Latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Driver) resources(node string) resourceslice.DriverResources {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.machines[node].resources(node)
}

// Behind returns those of the nodes on which the driver, unless it was killed there, has
// not published yet what there is.
func (d *Driver) Behind(nodes []*corev1.Node, published []*resourceapi.ResourceSlice) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var behind []string
	for _, n := range nodes {
		node := n.Name
		m := d.machines[node]
		if m == nil || d.killed[node] {
			continue
		}
		if d.running[node] == nil || !d.publishes(node, m, published) {
			behind = append(behind, node)
		}
	}
	return behind
}

// publishes tells whether a node's pool has what the node has.
func (d *Driver) publishes(node string, m *machine, published []*resourceapi.ResourceSlice) bool {
	want, have := map[string]string{}, map[string]string{}
	for _, device := range m.devices() {
		want[device.Name] = uuidOf(&device)
	}
	found := false
	for _, slice := range published {
		spec := &slice.Spec
		if spec.Driver != d.options.Name || spec.Pool.Name != node {
			continue
		}
		found = true
		for j := range spec.Devices {
			have[spec.Devices[j].Name] = uuidOf(&spec.Devices[j])
		}
	}
	return found && maps.Equal(want, have)
}

func uuidOf(d *resourceapi.Device) string {
	if value := d.Attributes[AttributeUUID].StringValue; value != nil {
		return *value
	}
	return ""
}
