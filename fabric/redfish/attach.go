// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"kerf.dev/kerf/fabric"
)

// Attach reserves a device and adds it to a machine. A device that is there already is done.
func (m *Manager) Attach(ctx context.Context, device fabric.DeviceRef, machine fabric.MachineRef) (fabric.Operation, error) {
	c := &change{m: m, op: "attach", device: device, machine: machine}
	return c.run(ctx, c.attach)
}

// Detach removes a device from a machine and gives its reservation back. A device that is free already is done.
func (m *Manager) Detach(ctx context.Context, device fabric.DeviceRef, machine fabric.MachineRef) (fabric.Operation, error) {
	c := &change{m: m, op: "detach", device: device, machine: machine}
	return c.run(ctx, c.detach)
}

// run reads the block and calls do, as the only call that works on the device.
func (c *change) run(ctx context.Context, do func(context.Context, *block) (fabric.Operation, error)) (fabric.Operation, error) {
	ctx, cancel := c.m.bounded(ctx)
	defer cancel()
	release, alone := c.m.use(string(c.device))
	if !alone {
		return fabric.Operation{}, &fabric.BusyError{Reason: "another call is working on device " + string(c.device)}
	}
	defer release()
	var b block
	etag, err := c.m.read(ctx, string(c.device), &b)
	if err != nil {
		return fabric.Operation{}, c.before(err)
	}
	b.ETag = etag
	if b.standsForMachine() {
		return fabric.Operation{}, c.refused("the resource block stands for a machine")
	}
	if b.busy() {
		return fabric.Operation{}, &fabric.BusyError{Reason: "device " + string(c.device) + " is being composed or decomposed"}
	}
	return do(ctx, &b)
}

func (c *change) attach(ctx context.Context, b *block) (fabric.Operation, error) {
	switch {
	case b.composedTo(c.machine):
		return fabric.Operation{State: fabric.Done, Message: "it was attached already"}, nil
	case b.machine() != "":
		return fabric.Operation{}, c.refused("it is attached to %s", b.machine())
	case !b.usable():
		return fabric.Operation{}, c.refused("it is in bad health or unavailable")
	}
	s, err := c.system(ctx)
	if err != nil {
		return fabric.Operation{}, c.before(err)
	}
	if b.ETag, err = c.reserve(ctx, b); err != nil {
		return fabric.Operation{}, err
	}
	got, err := c.compose(ctx, s, b)
	if err != nil {
		if judge(err) != verdictUnknown {
			return fabric.Operation{}, c.undone(ctx, c.after(err))
		}
		return fabric.Operation{}, c.after(err)
	}
	return c.started(got), nil
}

func (c *change) detach(ctx context.Context, b *block) (fabric.Operation, error) {
	if b.machine() != "" && !b.composedTo(c.machine) {
		return fabric.Operation{}, c.refused("it is attached to %s", b.machine())
	}
	if b.machine() == "" {
		return c.detached(ctx, "it was detached already"), nil
	}
	s, err := c.system(ctx)
	if err != nil {
		return fabric.Operation{}, c.before(err)
	}
	if b.reserved() {
		c.m.hold(c.device) // Whoever made it, it ends with the attachment.
	}
	got, err := c.compose(ctx, s, b)
	if err != nil {
		return fabric.Operation{}, c.after(err)
	}
	if operation := c.started(got); operation.State != fabric.Done {
		return operation, nil
	}
	return c.detached(ctx, ""), nil
}

// detached gives back the reservation of a device that is free now. If that fails, the device is free of the machine all
// the same, and the next inventory tries again.
func (c *change) detached(ctx context.Context, message string) fabric.Operation {
	if err := c.m.giveBack(ctx, c.device); err != nil {
		message = err.Error()
	}
	return fabric.Operation{State: fabric.Done, Message: message}
}

func (c *change) system(ctx context.Context) (*system, error) {
	var s system
	etag, err := c.m.read(ctx, string(c.machine), &s)
	s.ETag = etag
	return &s, err
}

// compose asks the service to add the block to the system or to remove it.
//
// gofish has AddResourceBlock and RemoveResourceBlock too. They send the block as a string where the schema wants a link,
// and send the request again without its precondition where that has failed.
func (c *change) compose(ctx context.Context, s *system, b *block) (*answer, error) {
	action := s.Actions.Add
	if c.op == "detach" {
		action = s.Actions.Remove
	}
	if action.Target == "" {
		return c.replaceBlocks(ctx)
	}
	parameters, err := c.parameters(ctx, action, s, b)
	if err != nil {
		return nil, err
	}
	return c.m.request(ctx, http.MethodPost, action.Target, parameters, nil)
}

// parameters of the action: as its ActionInfo says, or the one that is required where there is none.
func (c *change) parameters(ctx context.Context, action schemas.ActionTarget, s *system, b *block) (map[string]any, error) {
	parameters := map[string]any{"ResourceBlock": link(c.device)}
	if action.ActionInfoTarget == "" {
		return parameters, nil
	}
	var info actionInfo
	if _, err := c.m.read(ctx, action.ActionInfoTarget, &info); err != nil {
		return nil, unsent(err)
	}
	for _, p := range info.Parameters {
		switch {
		case p.Name == "ResourceBlock" && p.DataType == schemas.StringParameterTypes:
			parameters[p.Name] = string(c.device)
		case p.Name == "ResourceBlockETag" && b.ETag != "":
			parameters[p.Name] = b.ETag
		case p.Name == "ComputerSystemETag" && p.Required && s.ETag != "":
			// Only where it must be: a system changes whenever another device comes or goes.
			parameters[p.Name] = s.ETag
		}
	}
	return parameters, nil
}

// unsent makes it plain that what failed was reading: nothing was done.
func unsent(err error) error {
	if judge(err) != verdictUnknown {
		return err
	}
	// Not wrapped: its status is not that of a request that was to change something.
	return &transportError{op: "prepare the request", err: errors.New(err.Error())}
}

func link[T ~string](path T) map[string]string { return map[string]string{"@odata.id": string(path)} }

// replaceBlocks changes the system's list of blocks as a whole, if it is still as it is read now: another call may have
// had its turn since the system was read before.
func (c *change) replaceBlocks(ctx context.Context) (*answer, error) {
	release, alone := c.m.use(string(c.machine))
	if !alone {
		return nil, &statusError{op: "change the blocks of " + string(c.machine), status: http.StatusServiceUnavailable, message: "another call is changing them"}
	}
	defer release()
	s, err := c.system(ctx)
	if err != nil {
		return nil, unsent(err)
	}
	blocks := slices.DeleteFunc(s.Links.ResourceBlocks, func(l schemas.Link) bool { return l.String() == string(c.device) })
	if c.op == "attach" {
		blocks = append(blocks, schemas.Link(c.device))
	}
	listed := []map[string]string{}
	for _, l := range blocks {
		listed = append(listed, link(l))
	}
	body := map[string]any{"Links": map[string]any{"ResourceBlocks": listed}}
	got, err := c.m.request(ctx, http.MethodPatch, string(c.machine), body, ifMatch(s.ETag))
	if no := (*statusError)(nil); errors.As(err, &no) && no.status == http.StatusPreconditionFailed {
		// That is somebody else's change to the system, which says nothing about the device.
		return nil, &statusError{op: no.op, status: http.StatusServiceUnavailable, message: "the system was changed meanwhile: " + no.message}
	}
	return got, err
}

// started makes an operation of the answer to an attach or a detach.
func (c *change) started(got *answer) fabric.Operation {
	if got.status != http.StatusAccepted {
		return fabric.Operation{State: fabric.Done}
	}
	operation := fabric.Operation{State: fabric.Running}
	var t task
	if err := json.Unmarshal(got.body, &t); err == nil {
		operation.Message = c.m.session.words(t.message())
	}
	for _, at := range []string{got.header.Get("Location"), t.TaskMonitor, t.ID} {
		if operation.ID == "" {
			operation.ID = monitor(at)
		}
	}
	return operation
}

// monitor is the path of a task monitor, which some services tell with their own name in front. It is empty where it is
// not on the service, or longer than any path.
func monitor(location string) fabric.OperationID {
	if len(location) > maxText {
		return ""
	}
	at, err := url.Parse(location)
	if err != nil || at.Path == "" || at.Path[0] != '/' {
		return ""
	}
	return fabric.OperationID(at.RequestURI())
}
