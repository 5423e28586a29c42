// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// snapshot is what a loop has to publish: free devices, and the state of the
// fabric.
type snapshot struct {
	label     string
	offers    []offer
	inventory *fabric.Inventory
	// err is why the last inventory could not be read.
	err   error
	at    time.Time
	nodes int
}

// snapshot is nil while there is nothing new.
func (l *loop) snapshot() *snapshot {
	if !l.stale {
		return nil
	}
	l.stale = false
	s := &snapshot{label: l.nodes.labelKey(), err: l.inventoryErr, at: l.inventoryAt, nodes: l.nodes.mapped(), inventory: l.inventory}
	if l.inventory != nil {
		s.offers = offersOf(l.fabric, l.nodes, l.planner.Offers())
	}
	return s
}

// publishRetry is the wait after a publication that failed.
const publishRetry = 5 * time.Second

// publisher writes the newest snapshot. Older ones that it did not get to are not
// written.
type publisher struct {
	fabric  *v1alpha1.Fabric
	client  client.Client
	live    client.Reader
	log     logr.Logger
	metrics *metrics
	newest  chan *snapshot // room for one
}

// offer hands a snapshot over. Only the loop's goroutine may.
func (p *publisher) offer(s *snapshot) {
	if s == nil {
		return
	}
	select {
	case <-p.newest:
	default:
	}
	p.newest <- s
}

func (p *publisher) run(ctx context.Context) {
	var s *snapshot
	retry := time.NewTimer(forever)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s = <-p.newest:
		case <-retry.C:
		}
		wait := forever
		if err := p.write(ctx, s); err != nil && ctx.Err() == nil {
			p.log.Error(err, "Cannot publish", "fabric", p.fabric.Name)
			wait = publishRetry
		}
		retry.Reset(wait)
	}
}

// write publishes the devices and then says so. Before the first inventory nothing
// is known of the devices, and what was published by a predecessor stays.
func (p *publisher) write(ctx context.Context, s *snapshot) error {
	if s == nil {
		return nil
	}
	var err error
	if s.inventory != nil {
		err = p.writeSlices(ctx, s)
	}
	return errors.Join(err, p.writeStatus(ctx, s, err))
}

func (p *publisher) writeSlices(ctx context.Context, s *snapshot) error {
	var list resourceapi.ResourceSliceList
	if err := p.live.List(ctx, &list, client.MatchingLabels{labelFabric: p.fabric.Name}); err != nil {
		return fmt.Errorf("list the slices of the fabric: %w", err)
	}
	published, offers := map[string][]*resourceapi.ResourceSlice{}, map[string][]offer{}
	drivers := map[string]bool{}
	for i := range list.Items {
		if o := &list.Items[i]; metav1.IsControlledBy(o, p.fabric) {
			published[o.Spec.Driver] = append(published[o.Spec.Driver], o)
			drivers[o.Spec.Driver] = true
		}
	}
	for _, o := range s.offers {
		offers[o.driver] = append(offers[o.driver], o)
		drivers[o.driver] = true
	}
	var errs []error
	for driver := range drivers {
		errs = append(errs, p.apply(ctx, arrange(p.fabric, s.label, driver, offers[driver], published[driver])))
	}
	return errors.Join(errs...)
}

func (p *publisher) apply(ctx context.Context, pool shelf) error {
	for _, s := range pool.write {
		var err error
		if s.ResourceVersion == "" {
			err = p.client.Create(ctx, s)
		} else {
			err = p.client.Update(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("slice %s: %w", s.Name, err)
		}
	}
	for _, s := range pool.remove {
		if err := p.client.Delete(ctx, s); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("slice %s: %w", s.Name, err)
		}
	}
	return nil
}

func (p *publisher) writeStatus(ctx context.Context, s *snapshot, published error) error {
	f := &v1alpha1.Fabric{}
	if err := p.live.Get(ctx, client.ObjectKeyFromObject(p.fabric), f); err != nil {
		return client.IgnoreNotFound(err)
	}
	if f.UID != p.fabric.UID || f.Generation != p.fabric.Generation {
		// The next loop says how that one is.
		return nil
	}
	before := f.Status.DeepCopy()
	fillStatus(f, s, published, p.fabric.Generation)
	p.metrics.devices(f)
	if equality.Semantic.DeepEqual(before, &f.Status) {
		return nil
	}
	return p.client.Status().Update(ctx, f)
}

func fillStatus(f *v1alpha1.Fabric, s *snapshot, published error, generation int64) {
	f.Status.ObservedGeneration = generation
	f.Status.Nodes = int32(s.nodes)
	if s.inventory != nil {
		f.Status.Devices = countDevices(f, s.inventory)
		at := metav1.NewTime(s.at)
		f.Status.LastInventoryTime = &at
	}
	reachable, ready := condition(v1alpha1.FabricReachable, nil, "Answered"), condition(v1alpha1.FabricReady, published, "Published")
	switch {
	case s.err != nil:
		reachable = condition(v1alpha1.FabricReachable, s.err, "NoAnswer")
	case s.inventory == nil:
		reachable.Status, reachable.Reason = metav1.ConditionUnknown, "NotAsked"
	}
	if s.inventory == nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NoInventory", "the inventory of the fabric's manager was not read yet"
	}
	for _, c := range []metav1.Condition{reachable, ready} {
		c.ObservedGeneration = generation
		setFabricCondition(f, c)
	}
}

// condition is true without an error, and false with one.
func condition(kind string, err error, reason string) metav1.Condition {
	if err != nil {
		if kind == v1alpha1.FabricReady {
			reason = "NotPublished"
		}
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: shortened(err.Error())}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

func countDevices(f *v1alpha1.Fabric, inventory *fabric.Inventory) v1alpha1.DeviceCounts {
	var counts v1alpha1.DeviceCounts
	for i := range inventory.Devices {
		d := &inventory.Devices[i]
		if !offered(f, d) {
			continue
		}
		counts.Total++
		switch {
		case d.Machine != "":
			counts.Attached++
		case d.Busy || d.Reserved || !d.Healthy:
			counts.Unavailable++
		default:
			counts.Free++
		}
	}
	return counts
}

// offered tells whether a device matches a model.
func offered(f *v1alpha1.Fabric, d *fabric.Device) bool {
	fits := func(want, got string) bool { return want == "" || strings.EqualFold(want, got) }
	for _, m := range f.Spec.Models {
		if fits(m.Match.Manufacturer, d.Manufacturer) && fits(m.Match.Model, d.Model) && fits(m.Match.PartNumber, d.PartNumber) {
			return true
		}
	}
	return false
}
