// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// answers is the alloc.Matcher of one call of Allocate. It looks for an answer in
// the device's pool before it asks the selector, and leaves it there.
type answers struct {
	matcher *selector.Matcher
	pools   []*pool

	// the slice, and so the pool, that was asked about last, and the sheets of
	// that pool that are in use.
	slice *resourceapi.ResourceSlice
	pool  *pool
	open  []openSheet
}

type openSheet struct {
	expression string
	sheet      sheet
}

var _ alloc.Matcher = &answers{}

// Compile accepts everything: the stock allocator compiles an expression when it
// first has a device to match.
func (a *answers) Compile(string) error { return nil }

// Match evaluates a selector. The error is that of the compilation or a
// *selector.RuntimeError.
func (a *answers) Match(stop alloc.Stop, expression string, d *inventory.Device) (match bool, cost uint64, err error) {
	known := &a.sheet(expression, d)[d.Index]
	switch known.Load() {
	case matches:
		return true, 0, nil
	case differs:
		return false, 0, nil
	}
	ok, cost, err := a.matcher.Match(stop, expression, a.pool.memo.identified(d))
	switch {
	case err != nil: // the selector remembers those
	case ok:
		known.Store(matches)
	default:
		known.Store(differs)
	}
	return ok, cost, err
}

// Derive evaluates a derived attribute.
func (a *answers) Derive(stop alloc.Stop, expression string, d *inventory.Device) (*resourceapi.DeviceAttribute, uint64, error) {
	return a.matcher.Derive(stop, expression, d)
}

// Comparisons returns none: nobody reads the explanation.
func (a *answers) Comparisons(string) ([]inventory.Comparison, bool) { return nil, false }

func (a *answers) sheet(expression string, d *inventory.Device) sheet {
	p := a.poolOf(d)
	for i := range a.open {
		if a.open[i].expression == expression {
			return a.open[i].sheet
		}
	}
	s := p.memo.sheet(expression)
	a.open = append(a.open, openSheet{expression, s})
	return s
}

// poolOf returns the pool of a device of the view.
func (a *answers) poolOf(d *inventory.Device) *pool {
	if d.Slice == a.slice {
		return a.pool
	}
	a.slice = d.Slice
	id := d.ID.PoolID()
	for _, p := range a.pools {
		if p.id == id && p != a.pool {
			a.pool, a.open = p, a.open[:0]
			break
		}
	}
	return a.pool
}

// memo remembers which devices of a pool the selectors match.
type memo struct {
	mutex  sync.Mutex
	sheets map[string]sheet
	// known has the devices of the pool that the selector was asked about, so
	// that it need not find out again what they are.
	known []atomic.Pointer[inventory.Device]
}

func newMemo(devices int) *memo {
	return &memo{sheets: map[string]sheet{}, known: make([]atomic.Pointer[inventory.Device], devices)}
}

func (m *memo) identified(d *inventory.Device) *inventory.Device {
	known := m.known[d.Index].Load()
	if known == nil {
		known = d.Identified()
		m.known[d.Index].Store(known)
	}
	return known
}

// sheet has one answer per device of a pool.
type sheet []atomic.Uint32

const (
	unanswered = iota
	matches
	differs
)

// maxSheets bounds the expressions that a pool remembers. Most clusters have a
// few for each kind of device.
const maxSheets = 64

func (m *memo) sheet(expression string) sheet {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	s, found := m.sheets[expression]
	if !found {
		if len(m.sheets) >= maxSheets {
			clear(m.sheets)
		}
		s = make(sheet, len(m.known))
		m.sheets[expression] = s
	}
	return s
}
