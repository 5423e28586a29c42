// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Named is a part and the name under which it is found.
type Named struct {
	Name string
	Part
}

// Table has the parts of a sandbox in the order in which they start.
type Table []Named

// Start starts the part of that name.
func (t Table) Start(ctx context.Context, name, where string) error {
	return t.do("start", name, func(p Part) error { return p.Start(ctx, where) })
}

// Stop ends the part of that name in good order.
func (t Table) Stop(name string) error { return t.do("stop", name, Part.Stop) }

// Kill ends the part of that name as SIGKILL would.
func (t Table) Kill(name, where string) error {
	return t.do("kill", name, func(p Part) error { return p.Kill(where) })
}

// Cut cuts the part of that name off from the API server.
func (t Table) Cut(name string) error { return t.do("cut off", name, Part.Cut) }

// Reconnect ends what Cut has begun.
func (t Table) Reconnect(name string) error { return t.do("reconnect", name, Part.Reconnect) }

// StopAll stops all parts in reverse.
func (t Table) StopAll() error {
	var errs []error
	for _, p := range slices.Backward(t) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// do does something to the part of that name. The error of one that does not exist says
// which do.
func (t Table) do(verb, name string, act func(Part) error) error {
	names := make([]string, len(t))
	for i, p := range t {
		if names[i] = p.Name; p.Name != name {
			continue
		}
		if err := act(p.Part); err != nil {
			return fmt.Errorf("%s %s: %w", verb, name, err)
		}
		return nil
	}
	return fmt.Errorf("%s %s: there is no such part; the parts are %s", verb, name, strings.Join(names, ", "))
}
