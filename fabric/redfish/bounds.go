// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"kerf.dev/kerf/fabric"
)

// What a service can have us read and keep. It may be in somebody else's hands, and the process has other fabrics.
const (
	// maxAnswer and maxCall limit the bodies of one answer and of all answers of a call, in bytes, uncompressed.
	maxAnswer = 16 << 20
	maxCall   = 64 << 20
	// maxRefusal and maxLogin are for answers that gofish decodes: it makes much of few bytes.
	maxRefusal = 64 << 10
	maxLogin   = 256 << 10
	maxHeader  = 64 << 10
	// leastAnswer is what an answer counts at least for maxCall, so that the number of answers is limited as well.
	leastAnswer = 512
	// maxMembers limits every list: the members of a collection, the links of a resource.
	maxMembers = 16384
	maxPages   = 1024
	// maxPlaces limits in how many zones machines and devices are, all together.
	maxPlaces = 1 << 20
	// maxText limits every name and property that is kept, in bytes.
	maxText = 1024
	// maxServiceUUID is the limit of who the service is, in bytes.
	maxServiceUUID = 64
)

func limit(what string, args ...any) error {
	return &fabric.LimitError{What: fmt.Sprintf(what, args...)}
}

var (
	errAnswer = limit("an answer has more than %d bytes", maxAnswer)
	errCall   = limit("the answers of one call have more than %d bytes", maxCall)
)

// meter counts what the answers of a call have left of maxCall.
type meter struct{ left atomic.Int64 }

type meterKey struct{}

// bounded gives a call its timeout and what it may read.
func (m *Manager) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	call := &meter{}
	call.left.Store(maxCall)
	return context.WithTimeoutCause(context.WithValue(ctx, meterKey{}, call), m.options.Timeout,
		limit("no answer in %v, which is all that one call may take", m.options.Timeout))
}

// overdue has the error of a request that was cut off name the limit that did so.
func overdue(ctx context.Context, err error) error {
	late := (*fabric.LimitError)(nil)
	if err != nil && !errors.As(err, &late) && errors.As(context.Cause(ctx), &late) {
		return fmt.Errorf("%w: %w", late, err)
	}
	return err
}

// smallKey marks the context of requests whose answers are decoded by gofish.
type smallKey struct{}

func small(ctx context.Context) context.Context { return context.WithValue(ctx, smallKey{}, true) }

// measured limits the body of an answer.
func measured(response *http.Response) io.ReadCloser {
	ctx := response.Request.Context()
	b := &measuredBody{ReadCloser: response.Body, left: maxAnswer, over: errAnswer}
	b.call, _ = ctx.Value(meterKey{}).(*meter)
	most := int64(maxAnswer)
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		most = maxRefusal
	case ctx.Value(smallKey{}) != nil:
		most = maxLogin
	}
	if most < maxAnswer {
		b.left, b.over = most, limit("an answer with status %d to %s %s has more than %d bytes",
			response.StatusCode, response.Request.Method, response.Request.URL.Path, most)
	}
	b.charge(leastAnswer)
	return b
}

type measuredBody struct {
	io.ReadCloser

	left int64
	over error
	call *meter // nil: the answer is of no call
}

func (b *measuredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	b.charge(int64(n))
	switch {
	case b.left < 0:
		return n, b.over
	case b.call != nil && b.call.left.Load() < 0:
		return n, errCall
	}
	return n, err
}

func (b *measuredBody) charge(bytes int64) {
	if b.call != nil {
		b.call.left.Add(-bytes)
	}
}

// list is a list in an answer. It is decoded as far as it may be long: a few bytes each make a lot of entries.
type list[T any] []T

// UnmarshalJSON is json's.
func (l *list[T]) UnmarshalJSON(raw []byte) error {
	*l = nil
	decoder := json.NewDecoder(bytes.NewReader(raw))
	switch start, err := decoder.Token(); {
	case err != nil:
		return err
	case start == nil:
		return nil
	case start != json.Delim('['):
		return fmt.Errorf("%v is no list", start)
	}
	for decoder.More() {
		if len(*l) == maxMembers {
			return limit("a list has more than %d entries", maxMembers)
		}
		var one T
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// checkTexts refuses an inventory that has names or properties which nobody would give a device. They would be kept, and
// written into objects.
func checkTexts(inventory *fabric.Inventory) error {
	for i := range inventory.Devices {
		d := &inventory.Devices[i]
		if err := checkText("device", string(d.Ref), d.Zones, d.Kind, d.Manufacturer, d.Model, d.PartNumber, d.SerialNumber, d.UUID, string(d.Machine)); err != nil {
			return err
		}
	}
	for i := range inventory.Machines {
		m := &inventory.Machines[i]
		if err := checkText("machine", string(m.Ref), m.Zones, m.Name, m.UUID, m.SerialNumber, m.HostName); err != nil {
			return err
		}
	}
	return nil
}

func checkText(kind, ref string, zones []string, texts ...string) error {
	if len(ref) > maxText {
		return limit("the name %.64q... of a %s has more than %d bytes", ref, kind, maxText)
	}
	for _, all := range [][]string{texts, zones} {
		for _, text := range all {
			if len(text) > maxText {
				return limit("a property of %s %s has more than %d bytes", kind, ref, maxText)
			}
		}
	}
	return nil
}
