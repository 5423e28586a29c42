// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
)

// Part is one of those that a sandbox is made of, with all that can be done to it while
// the others run. A verb that a part does not know fails and says why.
type Part interface {
	// Start starts the part without memory of an earlier run. It fails with ErrRunning
	// if the part runs. Where is the node, for a part that is on many; for others it has
	// no meaning.
	Start(ctx context.Context, where string) error
	// Stop ends the part in good order and waits for its end. It does nothing if the
	// part does not run.
	Stop() error
	// Kill ends the part as SIGKILL would: from the moment of the call nothing that it
	// does reaches others any more. It does nothing if the part does not run.
	Kill(where string) error
	// Cut breaks the connection between the part and the API server until Reconnect.
	Cut() error
	// Reconnect ends what Cut has begun. It does nothing to a part that is connected.
	Reconnect() error
}

// ErrRunning is why a part cannot be started that runs.
var ErrRunning = errors.New("it is running")

var errUnlinked = errors.New("this part has no connection to the API server that could be cut")

// Unlinked is embedded in a part that cannot be cut off.
type Unlinked struct{}

// Cut fails.
func (Unlinked) Cut() error { return errUnlinked }

// Reconnect fails.
func (Unlinked) Reconnect() error { return errUnlinked }
