// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// snapshot is what a loop has to publish: free devices, and the state of the
// fabric.
type snapshot struct {
	label   string
	offers  []offer
	devices fabric.DeviceCounts
	// service is who gave the inventory; err is why the last one could not be read.
	service string
	err     error
	at      time.Time // of the inventory, zero where there is none
	nodes   int
	// refusal is why the Fabric is not ready, although its manager answers; nil if it
	// is.
	refusal *metav1.Condition
}

func (l *loop) snapshot() *snapshot {
	s := &snapshot{
		label: l.nodes.labelKey(), err: l.inventoryErr, at: l.inventoryAt, nodes: l.nodes.mapped(),
		devices: l.planner.Devices(), service: l.service, refusal: l.neighbours.refusal(),
	}
	if s.refusal == nil {
		s.refusal = notPermitted(l.fabric, l.denied)
	}
	if !s.at.IsZero() {
		s.offers = offersOf(l.fabric, l.nodes, slices.DeleteFunc(l.planner.Offers(), func(o fabric.Offer) bool {
			return l.denied[o.Driver] && o.Kept == ""
		}))
	}
	return s
}

// kept are the claims that devices of a snapshot are kept for.
func (s *snapshot) kept(pool string) map[fabric.LocalDevice]types.UID {
	kept := map[fabric.LocalDevice]types.UID{}
	for i := range s.offers {
		if o := &s.offers[i]; o.claim != "" {
			kept[fabric.LocalDevice{Driver: o.driver, Pool: pool, Device: o.device.Name}] = o.claim
		}
	}
	return kept
}

// publishRetry is the wait after a publication that failed.
const publishRetry = 5 * time.Second

// offer has published what is new, one snapshot at a time.
func (l *loop) offer(now time.Time) {
	if !l.stale || l.publishing || now.Before(l.publishAt) {
		return
	}
	l.stale, l.publishing, l.publishAt = false, true, time.Time{}
	l.metrics.published.WithLabelValues(l.fabric.Name).Inc()
	l.publish.newest <- l.snapshot()
}

// published hears how a publication went. The planner learns what the slices say only
// when they do.
func (l *loop) published(s *snapshot, slices, status error) {
	l.publishing = false
	if !s.at.IsZero() && slices == nil {
		l.planner.ObserveKept(s.kept(fabric.PoolName(l.fabric.Name)))
	}
	if err := errors.Join(slices, status); err != nil {
		l.log.Error(err, "Cannot publish")
		l.stale, l.publishAt = true, l.now().Add(publishRetry)
	}
}

// publisher writes snapshots.
type publisher struct {
	fabric  *v1alpha1.Fabric
	client  client.Client
	live    client.Reader
	metrics *metrics
	newest  chan *snapshot // room for one
	// written are the offers that the slices have, since when that is known.
	written   []offer
	writtenAt time.Time
	now       func() time.Time
	// invalid is what is wrong with the Fabric as it is now, nil if nothing is.
	invalid *atomic.Pointer[string]
}

// run writes until the context ends and tells how it went.
func (p *publisher) run(ctx context.Context, told func(s *snapshot, slices, status error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-p.newest:
			slices, status := p.write(ctx, s)
			told(s, slices, status)
		}
	}
}

// relist is how long slices are taken to be as they were written. Somebody may have
// changed them.
const relist = time.Minute

// write publishes the devices and then says so. Before the first inventory nothing
// is known of the devices, and what was published by a predecessor stays.
func (p *publisher) write(ctx context.Context, s *snapshot) (slices, status error) {
	if !s.at.IsZero() && (p.now().After(p.writtenAt.Add(relist)) || !reflect.DeepEqual(p.written, s.offers)) {
		p.writtenAt = time.Time{}
		if slices = p.writeSlices(ctx, s); slices == nil {
			p.written, p.writtenAt = s.offers, p.now()
		}
	}
	status = retry.RetryOnConflict(retry.DefaultRetry, func() error { return p.writeStatus(ctx, s, slices) })
	return slices, status
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
	fillStatus(f, s, published, p.invalid.Load())
	p.metrics.devices(f)
	if equality.Semantic.DeepEqual(before, &f.Status) {
		return nil
	}
	return p.client.Status().Update(ctx, f)
}

func fillStatus(f *v1alpha1.Fabric, s *snapshot, published error, invalid *string) {
	f.Status.ObservedGeneration = f.Generation
	f.Status.Nodes = int32(s.nodes)
	forgetModels(&f.Status, f.Generation)
	if !s.at.IsZero() {
		f.Status.Devices = v1alpha1.DeviceCounts{
			Total: int32(s.devices.Total), Free: int32(s.devices.Free), Attached: int32(s.devices.Attached), Unavailable: int32(s.devices.Unavailable),
		}
		f.Status.Service = &v1alpha1.ServiceReference{Endpoint: f.Spec.Redfish.Endpoint, UUID: s.service}
		at := metav1.NewTime(s.at)
		f.Status.LastInventoryTime = &at
	}
	reachable := metav1.Condition{Type: v1alpha1.FabricReachable, Status: metav1.ConditionTrue, Reason: "Answered"}
	switch {
	case s.err != nil:
		reachable.Status, reachable.Reason, reachable.Message = metav1.ConditionFalse, unreachable(s.err), shortened(s.err.Error())
	case s.at.IsZero():
		reachable.Status, reachable.Reason = metav1.ConditionUnknown, "NotAsked"
	}
	ready := metav1.Condition{Type: v1alpha1.FabricReady, Status: metav1.ConditionTrue, Reason: "Published", Message: shortened(useless(f))}
	switch {
	case invalid != nil:
		ready = unready("Invalid", *invalid)
	case s.refusal != nil:
		ready = *s.refusal
	case s.at.IsZero():
		ready = unready("NoInventory", "the inventory of the fabric's manager was not read yet")
	case published != nil:
		ready = unready("NotPublished", published.Error())
	}
	for _, c := range []metav1.Condition{reachable, ready} {
		c.ObservedGeneration = f.Generation
		apimeta.SetStatusCondition(&f.Status.Conditions, c)
	}
}

// unreachable is the reason of an inventory that could not be read.
func unreachable(err error) string {
	if over := (*fabric.LimitError)(nil); errors.As(err, &over) {
		return "LimitExceeded"
	}
	return "NoAnswer"
}

// useless says why a Fabric that is ready is of no use, or of less than it seems, empty
// where nothing is known to be wrong.
func useless(f *v1alpha1.Fabric) string {
	var why []string
	if f.Status.Nodes == 0 {
		why = append(why, "no node is a machine of the fabric: check spec.machines")
	}
	if f.Status.Devices.Total == 0 {
		why = append(why, "no device of the fabric matches a model: check spec.models[].match")
	}
	if models := unpromised(f); models != "" {
		why = append(why, models)
	}
	return strings.Join(why, "; ")
}
