// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stmcginnis/gofish/schemas"

	"kerf.dev/kerf/fabric"
)

// Operation asks the task monitor. A monitor answers 202 while the operation is going on, and then with what the
// operation would have been answered, had the client waited.
func (m *Manager) Operation(ctx context.Context, id fabric.OperationID) (fabric.Operation, error) {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	if id == "" {
		return fabric.Operation{}, fabric.ErrUnknownOperation
	}
	got, err := m.request(ctx, http.MethodGet, string(id), nil, nil)
	var no *statusError
	switch {
	case isGone(err):
		return fabric.Operation{}, fmt.Errorf("%s: %w", id, fabric.ErrUnknownOperation)
	case errors.As(err, &no) && busyError(err) != nil:
		return fabric.Operation{}, busyError(err)
	case errors.As(err, &no) && no.status != http.StatusBadGateway && no.status != http.StatusGatewayTimeout:
		return fabric.Operation{ID: id, State: fabric.Failed, Message: no.message}, nil
	case err != nil:
		return fabric.Operation{}, fmt.Errorf("operation %s: %w", id, err)
	}
	operation := fabric.Operation{ID: id, State: fabric.Done}
	if got.status == http.StatusAccepted {
		operation.State = fabric.Running
	}
	var t task
	if json.Unmarshal(got.body, &t) == nil && t.TaskState != "" {
		// Some services answer with the task all the time, and 200.
		operation.State, operation.Message = taskState(t.TaskState), m.session.words(t.message())
	}
	return operation, nil
}

func taskState(state schemas.TaskState) fabric.OperationState {
	switch state {
	case schemas.CompletedTaskState:
		return fabric.Done
	case schemas.ExceptionTaskState, schemas.KilledTaskState, schemas.CancelledTaskState:
		return fabric.Failed
	}
	return fabric.Running
}
