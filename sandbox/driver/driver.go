// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kerf.dev/kerf/fabric/redfish/service"
)

// Options say what a driver is.
type Options struct {
	// Name is the driver's name.
	Name string
	// Latency is how long after a change of the hardware the driver notices.
	Latency time.Duration
	// Takes tells which devices on a bus are the driver's; nil: all.
	Takes func(service.Device) bool
	// Client writes the slices and watches the nodes.
	Client kubernetes.Interface
	// Attachments, if not nil, gives the driver on a node a client for the
	// DeviceAttachments of a fabric: devices that are attached for a claim are published
	// with its taint from the first moment on.
	Attachments func(node string) (dynamic.Interface, error)
	// Directory is where each node has a directory of augmentation files, with the
	// node's name.
	Directory string
	// Report is told what goes wrong.
	Report func(error)
}

// Driver is a driver on many nodes. Its methods may be called concurrently.
type Driver struct {
	options Options

	mu sync.Mutex
	// ctx is the context of Run, nil before it.
	ctx      context.Context
	closed   bool
	machines map[string]*machine  // by node
	looks    map[string]Look      // of all machines
	nodes    map[string]types.UID // those that exist
	killed   map[string]bool
	running  map[string]*instance
}

// New returns a driver that runs nowhere yet.
func New(options Options) *Driver {
	return &Driver{
		options: options, machines: map[string]*machine{}, looks: map[string]Look{}, nodes: map[string]types.UID{},
		killed: map[string]bool{}, running: map[string]*instance{},
	}
}

// Run runs the driver until the context ends.
func (d *Driver) Run(ctx context.Context) error {
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	factory := informers.NewSharedInformerFactory(d.options.Client, 0)
	informer := factory.Core().V1().Nodes().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    d.nodeIs,
		UpdateFunc: func(_, o any) { d.nodeIs(o) },
		DeleteFunc: d.nodeGone,
	})
	if err != nil {
		return fmt.Errorf("driver %s: watch nodes: %w", d.options.Name, err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	d.close()
	return ctx.Err()
}

// close ends what runs on the nodes.
func (d *Driver) close() {
	d.mu.Lock()
	d.closed = true
	running := slices.Collect(maps.Values(d.running))
	clear(d.running)
	d.mu.Unlock()
	for _, i := range running {
		i.stop()
	}
}

// Place has the driver run on a node, with these devices that the node always had
// beside those that it was told before.
func (d *Driver) Place(node string, own ...resourceapi.Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.machines[node]
	if m == nil {
		m = newMachine()
		m.looks = d.looks
		d.machines[node] = m
	}
	for _, device := range own {
		m.own[device.Name] = device
	}
	m.see(m.bus)
	d.startOn(node)
	d.wake(node)
}

// See takes in what the host of a node sees on its bus.
func (d *Driver) See(node string, devices []service.Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.machines[node]
	if m == nil {
		return
	}
	var mine []service.Device
	for _, device := range devices {
		if d.options.Takes == nil || d.options.Takes(device) {
			mine = append(mine, device)
		}
	}
	m.see(mine)
	d.wake(node)
}

// Show has the driver publish a device, by the name of its block, otherwise than the
// hardware says, on whatever node it is; with nil as the hardware says again.
func (d *Driver) Show(block string, look *Look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.looks, block)
	if look != nil {
		d.looks[block] = *look
	}
	for node := range d.machines {
		d.wake(node)
	}
}

func (d *Driver) wake(node string) {
	if i := d.running[node]; i != nil {
		i.wake()
	}
}

// Kill ends the driver on a node, as a crash does.
func (d *Driver) Kill(node string) error {
	d.mu.Lock()
	if d.machines[node] == nil {
		d.mu.Unlock()
		return fmt.Errorf("driver %s is not on node %s", d.options.Name, node)
	}
	d.killed[node] = true
	i := d.running[node]
	delete(d.running, node)
	d.mu.Unlock()
	i.stop()
	return nil
}

// Start starts the driver on a node where it was killed.
func (d *Driver) Start(node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.killed[node] {
		return fmt.Errorf("driver %s was not killed on node %s", d.options.Name, node)
	}
	delete(d.killed, node)
	d.startOn(node)
	return nil
}

// nodeIs starts the driver on a new node, and anew on one that was replaced.
func (d *Driver) nodeIs(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	d.mu.Lock()
	if d.nodes[node.Name] == node.UID {
		d.mu.Unlock()
		return
	}
	d.nodes[node.Name] = node.UID
	old := d.running[node.Name]
	delete(d.running, node.Name)
	d.mu.Unlock()
	old.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startOn(node.Name)
}

// nodeGone ends the driver on a node that is gone. Its slices are the Node's and go
// with it.
func (d *Driver) nodeGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	d.mu.Lock()
	delete(d.nodes, node.Name)
	i := d.running[node.Name]
	delete(d.running, node.Name)
	d.mu.Unlock()
	i.stop()
}

// startOn starts the driver on a node where it is to be and is not. The caller holds
// the lock.
func (d *Driver) startOn(node string) {
	uid, exists := d.nodes[node]
	if !exists || d.machines[node] == nil || d.killed[node] || d.running[node] != nil || d.closed {
		return
	}
	d.running[node] = d.begin(d.ctx, node, uid)
}

// Directory is where the augmentation files of a node are.
func (d *Driver) Directory(node string) string { return filepath.Join(d.options.Directory, node) }

// report passes on what went wrong, unless that is only that everything ends.
func (d *Driver) report(ctx context.Context, node string, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		d.options.Report(fmt.Errorf("driver %s on node %s: %w", d.options.Name, node, err))
	}
}
