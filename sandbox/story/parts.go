// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import "kerf.dev/kerf/scenario"

var (
	_ scenario.Parts  = &backend{}
	_ scenario.Waiter = &backend{}
)

func (b *backend) Kill(part, where string) error {
	b.settled = nil
	return b.sandbox.Parts().Kill(part, where)
}

func (b *backend) Start(part, where string) error {
	b.settled = nil
	return b.sandbox.Parts().Start(b.ctx, part, where)
}

func (b *backend) Disconnect(part string) error {
	b.settled = nil
	return b.sandbox.Parts().Cut(part)
}

func (b *backend) Reconnect(part string) error {
	b.settled = nil
	return b.sandbox.Parts().Reconnect(part)
}

// Wait looks at the state as it is each time.
func (b *backend) Wait(done func() (bool, error)) error {
	return poll(b.ctx, func() (bool, error) {
		b.settled = nil
		return done()
	})
}
