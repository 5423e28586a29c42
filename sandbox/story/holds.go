// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/scenario"
)

var _ scenario.Holds = &backend{}

// ways are the sandbox's for the ends of holds.
var ways = map[scenario.Release]sandbox.Release{
	scenario.GoOn: sandbox.GoOn, scenario.TimeOut: sandbox.TimeOut, scenario.Twice: sandbox.Twice,
}

func (b *backend) Hold(h scenario.Hold) error {
	b.settled = nil
	_, err := b.sandbox.Holds().Add(sandbox.Hold{Part: h.Part, Verb: h.Verb, Resource: h.Resource, Done: h.Done, Saying: h.Saying})
	return err
}

func (b *backend) Left() (idle, held []scenario.Hold) {
	armed, caught := b.sandbox.Holds().Left()
	return told(armed), told(caught)
}

// told are holds in the words of stories.
func told(holds []sandbox.Hold) []scenario.Hold {
	var all []scenario.Hold
	for _, h := range holds {
		all = append(all, scenario.Hold{Part: h.Part, Verb: h.Verb, Resource: h.Resource, Done: h.Done, Saying: h.Saying})
	}
	return all
}

func (b *backend) Held(verb, resource string) (bool, error) {
	return b.sandbox.Holds().Held(verb, resource), nil
}

func (b *backend) Release(verb, resource string, how scenario.Release) error {
	b.settled = nil
	return b.sandbox.Holds().Release(verb, resource, ways[how])
}

func (b *backend) Seen() (bool, string, error) {
	missing, err := b.sandbox.Unseen(b.ctx)
	return missing == "" && err == nil, missing, err
}
