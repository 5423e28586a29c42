// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"kerf.dev/kerf/fabric"
)

type compositionStatus struct {
	Reserved bool
}

// reservation is the body of a PATCH of a ResourceBlock.
type reservation struct {
	CompositionStatus compositionStatus
}

// tick counts an event.
func (m *Manager) tick() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticks++
	return m.ticks
}

// hold notes that the reservation of a device is ours.
func (m *Manager) hold(device fabric.DeviceRef) {
	now := m.tick()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved[device] = now
}

func (m *Manager) letGo(device fabric.DeviceRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reserved, device)
}

func (m *Manager) ours(device fabric.DeviceRef) bool {
	m.mu.Lock()
	_, held := m.reserved[device]
	m.mu.Unlock()
	return held || m.options.Ours != nil && m.options.Ours(device)
}

// setReserved changes the reservation of a block if it is still as its ETag says, and returns the new ETag, empty where
// the service has none.
func (m *Manager) setReserved(ctx context.Context, device fabric.DeviceRef, reserved bool, etag string) (string, error) {
	got, err := m.request(ctx, http.MethodPatch, string(device), reservation{compositionStatus{reserved}}, ifMatch(etag))
	if err != nil {
		return "", err
	}
	if tag := got.header.Get("ETag"); tag != "" {
		return tag, nil
	}
	if etag == "" {
		return "", nil
	}
	var b block
	return m.read(ctx, string(device), &b)
}

func ifMatch(etag string) map[string]string {
	if etag == "" {
		return nil
	}
	return map[string]string{"If-Match": etag}
}

// reserve reserves the block for us before it is attached, and returns its ETag as it is then. The errors are those of
// Attach.
func (c *change) reserve(ctx context.Context, b *block) (string, error) {
	switch {
	case b.CompositionStatus.Reserved == nil:
		return b.ETag, nil // The service has no reservations.
	case b.reserved() && c.m.ours(c.device):
		c.m.hold(c.device)
		return b.ETag, nil
	case b.reserved():
		return "", c.refused("somebody else has reserved it")
	}
	c.m.hold(c.device)
	etag, err := c.m.setReserved(ctx, c.device, true, b.ETag)
	if err == nil {
		return etag, nil
	}
	if judge(err) == verdictUnknown {
		return "", c.after(err)
	}
	c.m.letGo(c.device)
	var no *statusError
	if errors.As(err, &no) {
		switch no.status {
		case http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return b.ETag, nil // The service shows reservations and lets nobody make one.
		case http.StatusPreconditionFailed, http.StatusPreconditionRequired:
			return "", c.refused("somebody else was faster to reserve or to change it")
		}
	}
	return "", c.after(err)
}

// giveBack ends our reservation of a device, if there is one and the device is free.
func (m *Manager) giveBack(ctx context.Context, device fabric.DeviceRef) error {
	if !m.ours(device) {
		return nil
	}
	var b block
	etag, err := m.read(ctx, string(device), &b)
	if err != nil {
		return fmt.Errorf("give back the reservation: %w", err)
	}
	if b.machine() != "" || b.busy() {
		return nil
	}
	if b.reserved() {
		if _, err := m.setReserved(ctx, device, false, etag); err != nil {
			return fmt.Errorf("give back the reservation: %w", err)
		}
	}
	m.letGo(device)
	return nil
}

// undone returns the error of an attach that did nothing but reserve the device, having given it back. Where that
// fails, the outcome is not "nothing".
func (c *change) undone(ctx context.Context, why error) error {
	if err := c.m.giveBack(ctx, c.device); err != nil {
		return fmt.Errorf("%s device %s, machine %s: it may have stayed reserved: %w; after: %s",
			c.op, c.device, c.machine, err, why.Error())
	}
	return why
}

// tidy gives back a reservation of ours that is left on a free device by an interruption. Began is when reading the
// inventory began. A device whose reservation cannot be given back is shown as busy.
func (m *Manager) tidy(ctx context.Context, began uint64, b *block, d *fabric.Device) error {
	device := fabric.DeviceRef(b.ID)
	left := d.Reserved && m.ours(device)
	if left {
		d.Reserved = false
	}
	if d.Machine != "" || d.Busy {
		return nil
	}
	release, alone := m.use(b.ID)
	if !alone {
		d.Busy = true // A call of ours is about to attach it.
		return nil
	}
	defer release()
	if !b.reserved() {
		m.forgetBefore(device, began)
	}
	if !left {
		return nil
	}
	if err := m.giveBack(ctx, device); err != nil {
		d.Busy = true
		return ctx.Err()
	}
	return nil
}

// forgetBefore notes that a device was not reserved any more at a time. What was reserved since is another matter.
func (m *Manager) forgetBefore(device fabric.DeviceRef, began uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, held := m.reserved[device]; held && at < began {
		delete(m.reserved, device)
	}
}
