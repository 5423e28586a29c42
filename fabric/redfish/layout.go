// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// layout is where things are in the service and what it can do.
type layout struct {
	systems, blocks, zones string
	expandable             gofish.Expand
	// unable says that the service cannot expand although it says so.
	unable atomic.Bool
}

// known returns the layout if it was read.
func (m *Manager) known() *layout {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.layout
}

// explore reads the layout, the first time.
func (m *Manager) explore(ctx context.Context) (*layout, error) {
	if l := m.known(); l != nil {
		return l, nil
	}
	var root struct {
		Systems                   schemas.Link
		CompositionService        schemas.Link
		ProtocolFeaturesSupported gofish.ProtocolFeaturesSupported
	}
	if _, err := m.read(ctx, schemas.DefaultServiceRoot, &root); err != nil {
		return nil, err
	}
	if root.Systems == "" || root.CompositionService == "" {
		return nil, fmt.Errorf("%s: the service has no Systems or no CompositionService, so it is no fabric manager", m.options.Endpoint)
	}
	var composition struct {
		ResourceBlocks schemas.Link
		ResourceZones  schemas.Link
	}
	if _, err := m.read(ctx, root.CompositionService.String(), &composition); err != nil {
		return nil, err
	}
	if composition.ResourceBlocks == "" {
		return nil, fmt.Errorf("%s: the service has no ResourceBlocks", root.CompositionService)
	}
	l := &layout{
		systems: root.Systems.String(), blocks: composition.ResourceBlocks.String(), zones: composition.ResourceZones.String(),
		expandable: root.ProtocolFeaturesSupported.ExpandQuery,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layout = l
	return l, nil
}

// expand is the query that has a collection expanded that many levels deep, or fewer where the service can do no more;
// empty where it cannot.
func (l *layout) expand(levels int) string {
	option := "."
	switch {
	case l.unable.Load():
		return ""
	case l.expandable.NoLinks:
	case l.expandable.ExpandAll:
		option = "*"
	default:
		return ""
	}
	if !l.expandable.Levels {
		return "?$expand=" + option
	}
	if most := int(l.expandable.MaxLevels); most > 0 {
		levels = min(levels, most)
	}
	return fmt.Sprintf("?$expand=%s($levels=%d)", option, levels)
}

func (l *layout) neverExpand() { l.unable.Store(true) }
