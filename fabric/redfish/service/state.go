// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"maps"
	"slices"
)

// stateVersion is raised when the meaning of State changes.
const stateVersion = 1

// State is what a service keeps over a restart. Sessions and tasks are not in it, nor what was going on.
type State struct {
	Version int `json:"version"`
	// Blocks by ID.
	Blocks map[string]BlockState `json:"blocks"`
	// Tasks is the number of the last task, so that no two tasks are ever the same.
	Tasks int `json:"tasks"`
}

// BlockState is the state of a block. Hosts are IDs.
type BlockState struct {
	Host     string `json:"host,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	// Broken and Hidden say why the host does not see it: it vanished, or never appeared.
	Broken bool `json:"broken,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
}

// State returns what a service of the same description can go on from.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *Service) state() State {
	state := State{Version: stateVersion, Blocks: map[string]BlockState{}, Tasks: s.tasks.last}
	for id, b := range s.shelf.blocks {
		state.Blocks[id] = BlockState{Host: b.host, Reserved: b.reserved, Broken: b.broken, Hidden: b.hidden}
	}
	return state
}

// changed hands the state on. The caller holds the lock.
func (s *Service) changed() {
	if s.options.Persist != nil && !s.closed {
		s.options.Persist(s.state())
	}
}

// restore checks a state against the description and takes it over. Blocks that it does not know are new.
func (c *shelf) restore(state State) error {
	if state.Version != stateVersion {
		return fmt.Errorf("state: version is %d, want %d", state.Version, stateVersion)
	}
	for _, id := range slices.Sorted(maps.Keys(state.Blocks)) {
		kept, b := state.Blocks[id], c.blocks[id]
		if b == nil {
			return fmt.Errorf("state: block %q is not in the description", id)
		}
		if kept.Host != "" && c.hosts[kept.Host] == nil {
			return fmt.Errorf("state: block %q: host %q is not in the description", id, kept.Host)
		}
		b.host, b.reserved, b.broken, b.hidden = kept.Host, kept.Reserved, kept.Broken, kept.Hidden
		// What was about to appear has appeared: that takes time, not a manager.
		if b.seenBy = b.host; b.broken || b.hidden {
			b.seenBy = ""
		}
	}
	return nil
}
