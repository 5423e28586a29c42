// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Inventory collects API objects. Its zero value is not usable, see [New].
// Objects that are handed in must not be changed afterwards.
type Inventory struct {
	slices map[string]*resourceapi.ResourceSlice
	pools  map[PoolID]map[string]*resourceapi.ResourceSlice
	rules  map[string]*resourceapi.DeviceTaintRule
	// owned lists the devices that an owner holds.
	owned   map[string][]DeviceID
	ledgers map[PoolID]*ledger
	kept    *kept

	stale map[PoolID]staleness
	// moved are the devices of stale pools whose holds changed.
	moved     map[PoolID][]string
	published *Snapshot
}

// staleness says how much of a pool's entry must be made anew.
type staleness int

const (
	useChanged staleness = iota + 1
	slicesChanged
)

// New returns an empty inventory.
func New() *Inventory {
	return &Inventory{
		slices:    map[string]*resourceapi.ResourceSlice{},
		pools:     map[PoolID]map[string]*resourceapi.ResourceSlice{},
		rules:     map[string]*resourceapi.DeviceTaintRule{},
		owned:     map[string][]DeviceID{},
		ledgers:   map[PoolID]*ledger{},
		kept:      newKept(),
		stale:     map[PoolID]staleness{},
		moved:     map[PoolID][]string{},
		published: &Snapshot{pools: iradix.New[*poolEntry](), byNode: iradix.New[PoolID]()},
	}
}

func poolOf(slice *resourceapi.ResourceSlice) PoolID {
	return PoolID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name}
}

// SetSlice adds or replaces a ResourceSlice. Setting the same object again
// costs nothing.
func (inv *Inventory) SetSlice(slice *resourceapi.ResourceSlice) {
	old := inv.slices[slice.Name]
	if old == slice {
		return
	}
	if old != nil {
		inv.dropSlice(old)
	}
	id := poolOf(slice)
	inv.slices[slice.Name] = slice
	if inv.pools[id] == nil {
		inv.pools[id] = map[string]*resourceapi.ResourceSlice{}
	}
	inv.pools[id][slice.Name] = slice
	inv.stale[id] = slicesChanged
	inv.staleForKept(old, slice)
}

// DeleteSlice removes a ResourceSlice; unknown names are ignored.
func (inv *Inventory) DeleteSlice(name string) {
	slice := inv.slices[name]
	if slice == nil {
		return
	}
	inv.dropSlice(slice)
	inv.staleForKept(slice, nil)
}

func (inv *Inventory) dropSlice(slice *resourceapi.ResourceSlice) {
	id := poolOf(slice)
	delete(inv.slices, slice.Name)
	delete(inv.pools[id], slice.Name)
	if len(inv.pools[id]) == 0 {
		delete(inv.pools, id)
	}
	inv.stale[id] = slicesChanged
}

// staleForKept marks the pools whose devices are kept for somebody else than before,
// after one slice took the place of another.
func (inv *Inventory) staleForKept(old, next *resourceapi.ResourceSlice) {
	for _, pool := range inv.kept.replace(old, next, inv.slices) {
		inv.stale[pool] = slicesChanged
	}
}

// SyncSlices makes the inventory hold exactly these slices.
func (inv *Inventory) SyncSlices(all []*resourceapi.ResourceSlice) {
	for _, slice := range all {
		inv.SetSlice(slice)
	}
	if len(inv.slices) == len(all) {
		return
	}
	keep := make(map[string]bool, len(all))
	for _, slice := range all {
		keep[slice.Name] = true
	}
	for name := range inv.slices {
		if !keep[name] {
			inv.DeleteSlice(name)
		}
	}
}

// SetTaintRule adds or replaces a DeviceTaintRule. Do not use it where taints of
// rules are already part of the slices, as in a scheduler's lister.
func (inv *Inventory) SetTaintRule(rule *resourceapi.DeviceTaintRule) {
	inv.DeleteTaintRule(rule.Name)
	inv.rules[rule.Name] = rule
	inv.staleForRule(rule)
}

// DeleteTaintRule removes a DeviceTaintRule; unknown names are ignored.
func (inv *Inventory) DeleteTaintRule(name string) {
	if rule := inv.rules[name]; rule != nil {
		delete(inv.rules, name)
		inv.staleForRule(rule)
	}
}

func (inv *Inventory) staleForRule(rule *resourceapi.DeviceTaintRule) {
	s := rule.Spec.DeviceSelector
	if s == nil {
		return
	}
	for id := range inv.pools {
		if (s.Driver == nil || *s.Driver == id.Driver) && (s.Pool == nil || *s.Pool == id.Pool) {
			inv.stale[id] = slicesChanged
		}
	}
}

// SetClaim records what a claim occupies, in place of what it did before.
func (inv *Inventory) SetClaim(claim *resourceapi.ResourceClaim) {
	inv.SetHolds(string(claim.UID), HoldsOf(claim))
}

// DeleteClaim frees what the claim occupied.
func (inv *Inventory) DeleteClaim(claim *resourceapi.ResourceClaim) {
	inv.SetHolds(string(claim.UID), nil)
}

// SetHolds records what an owner, for example a claim's UID, occupies, in place
// of what it did before. Nothing is held with no holds.
func (inv *Inventory) SetHolds(owner string, holds []Hold) {
	byDevice := map[DeviceID][]Hold{}
	var devices []DeviceID
	for _, h := range holds {
		if byDevice[h.Device] == nil {
			devices = append(devices, h.Device)
		}
		byDevice[h.Device] = append(byDevice[h.Device], h)
	}
	for _, id := range inv.owned[owner] {
		if byDevice[id] == nil {
			inv.ledger(id.PoolID()).clear(id.Device, owner)
			inv.staleUse(id)
		}
	}
	for _, id := range devices {
		inv.ledger(id.PoolID()).set(id.Device, owner, byDevice[id])
		inv.staleUse(id)
	}
	delete(inv.owned, owner)
	if len(devices) > 0 {
		inv.owned[owner] = devices
	}
}

func (inv *Inventory) ledger(id PoolID) *ledger {
	l := inv.ledgers[id]
	if l == nil {
		l = newLedger()
		inv.ledgers[id] = l
	}
	return l
}

func (inv *Inventory) staleUse(id DeviceID) {
	pool := id.PoolID()
	inv.stale[pool] = max(inv.stale[pool], useChanged)
	inv.moved[pool] = append(inv.moved[pool], id.Device)
}

// Snapshot returns the state as it is now.
func (inv *Inventory) Snapshot() *Snapshot {
	if len(inv.stale) == 0 {
		return inv.published
	}
	pools, byNode := inv.published.pools.Txn(), inv.published.byNode.Txn()
	for id, how := range inv.stale {
		old, _ := pools.Get(poolKey(id))
		next := inv.entry(id, old, how)
		house(byNode, id, old, next)
		if next == nil {
			pools.Delete(poolKey(id))
		} else {
			pools.Insert(poolKey(id), next)
		}
	}
	clear(inv.stale)
	clear(inv.moved)
	inv.published = &Snapshot{pools: pools.Commit(), byNode: byNode.Commit()}
	return inv.published
}

// house changes by which nodes a pool is found.
func house(byNode *iradix.Txn[PoolID], id PoolID, old, next *poolEntry) {
	var before, after []string
	if old != nil {
		before = old.homes
	}
	if next != nil {
		after = next.homes
	}
	if slices.Equal(before, after) {
		return
	}
	for _, node := range before {
		if _, found := slices.BinarySearch(after, node); !found {
			byNode.Delete(nodeKey(node, id))
		}
	}
	for _, node := range after {
		if _, found := slices.BinarySearch(before, node); !found {
			byNode.Insert(nodeKey(node, id), id)
		}
	}
}

// entry makes the entry of a stale pool, nil where the pool is gone.
func (inv *Inventory) entry(id PoolID, old *poolEntry, how staleness) *poolEntry {
	l := inv.ledger(id)
	if old != nil {
		// Whoever took a device since the last snapshot may have seen it
		// as it was there, even if it changed or left in the meantime.
		for p := range old.all {
			l.rememberOnly(p.pool, inv.moved[id])
		}
	}
	if len(inv.pools[id]) == 0 {
		if len(l.holds) == 0 {
			delete(inv.ledgers, id)
		}
		return nil
	}
	if old != nil && how == useChanged {
		return old.after(l, inv.moved[id])
	}
	e := inv.newEntry(id)
	e.account(l)
	return e
}

// newEntry puts a pool together, or its parts.
func (inv *Inventory) newEntry(id PoolID) *poolEntry {
	rules := inv.sortedRules()
	e := &poolEntry{split: newSplit(inv.pools[id])}
	whole := true
	if s := e.split; s != nil {
		whole = s.divide(func(of []*resourceapi.ResourceSlice, superseded bool) int {
			p := newPool(id, of, rules, inv.kept)
			p.Publishers = s.publishers
			if superseded {
				p.supersede(s.newest)
			}
			e.addPart(p)
			return len(e.parts) - 1
		})
	}
	if whole {
		p := newPool(id, newest(inv.pools[id]), rules, inv.kept)
		if e.split != nil {
			p.Publishers = e.split.publishers
		}
		e.whole = newPart(p)
	}
	e.former = inv.formerPool(id, e)
	e.settleHomes()
	return e
}

// newest returns the slices of the highest generation.
func newest(of map[string]*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var result []*resourceapi.ResourceSlice
	for _, slice := range of {
		switch {
		case len(result) == 0 || slice.Spec.Pool.Generation > result[0].Spec.Pool.Generation:
			result = append(result[:0], slice)
		case slice.Spec.Pool.Generation == result[0].Spec.Pool.Generation:
			result = append(result, slice)
		}
	}
	return result
}

func (inv *Inventory) sortedRules() []*resourceapi.DeviceTaintRule {
	return slices.SortedFunc(maps.Values(inv.rules), func(a, b *resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
}

// Snapshot is an immutable state of an inventory.
type Snapshot struct {
	pools  *iradix.Tree[*poolEntry]
	byNode *iradix.Tree[PoolID]
}

// poolKey and nodeKey sort like PoolID.Compare: names contain no NUL.
func poolKey(id PoolID) []byte {
	return []byte(id.Driver + "\x00" + id.Pool)
}

func nodeKey(node string, id PoolID) []byte {
	return append([]byte(node+"\x00"), poolKey(id)...)
}

// View returns what the node can use.
func (s *Snapshot) View(node *v1.Node) *View {
	var pools []PoolView
	add := func(_ []byte, id PoolID) bool {
		e, _ := s.pools.Get(poolKey(id))
		if pv, ok := e.view(node); ok {
			pools = append(pools, pv)
		}
		return false
	}
	s.byNode.Root().WalkPrefix([]byte("\x00"), add)
	s.byNode.Root().WalkPrefix([]byte(node.Name+"\x00"), add)
	slices.SortFunc(pools, func(a, b PoolView) int { return a.Pool.ID.Compare(b.Pool.ID) })
	return &View{Node: node, Pools: order(pools)}
}

// Pool returns a pool and what is taken of it, nil where there is none. Where nodes have
// parts of their own it is one of them, see [Snapshot.PoolsNamed].
func (s *Snapshot) Pool(id PoolID) (*Pool, *PoolUse) {
	for pool, use := range s.PoolsNamed(id) {
		return pool, use
	}
	return nil, nil
}

// Pools calls yield for every pool, by driver and name, until it returns false.
func (s *Snapshot) Pools(yield func(*Pool, *PoolUse) bool) {
	s.pools.Root().Walk(func(_ []byte, e *poolEntry) bool { return !e.each(yield) })
}

// PoolsNamed goes through a pool as different nodes have it: more than one where they
// publish the same pool, see [Pool.Publishers].
func (s *Snapshot) PoolsNamed(id PoolID) iter.Seq2[*Pool, *PoolUse] {
	return func(yield func(*Pool, *PoolUse) bool) {
		if e, found := s.pools.Get(poolKey(id)); found {
			e.each(yield)
		}
	}
}

// each reports whether yield always returned true.
func (e *poolEntry) each(yield func(*Pool, *PoolUse) bool) bool {
	for p := range e.all {
		if !yield(p.pool, p.use) {
			return false
		}
	}
	return true
}

// PoolOn returns a pool as the node has it, nil where the node has none: what the slices
// make that decide for the node, whichever of the devices it reaches.
func (s *Snapshot) PoolOn(id PoolID, node *v1.Node) *Pool {
	if e, found := s.pools.Get(poolKey(id)); found {
		if part := e.partOf(node); part != nil {
			return part.pool
		}
	}
	return nil
}

// DevicesOf returns the devices of an allocation, in the order of its results; nil
// stands for those that are not published any more.
func (s *Snapshot) DevicesOf(a *resourceapi.AllocationResult) []*Device {
	devices := make([]*Device, len(a.Devices.Results))
	node := onlyNode(a.NodeSelector)
	for i, r := range a.Devices.Results {
		devices[i] = s.Device(IDOf(&r), node)
	}
	return devices
}

// Device returns a device, nil where it is not published. Where several nodes publish
// it, it is that of the node.
func (s *Snapshot) Device(id DeviceID, node string) *Device {
	if e, found := s.pools.Get(poolKey(id.PoolID())); found {
		return e.device(id.Device, node)
	}
	return nil
}

// Holders returns the claims that hold the device, nil where it is free.
func (s *Snapshot) Holders(id DeviceID) []Holder {
	for pool, use := range s.PoolsNamed(id.PoolID()) {
		occupancy := use.Gone[id.Device]
		if d := pool.Device(id.Device); d != nil {
			occupancy = use.Taken[d.Index]
		}
		if occupancy != nil {
			return occupancy.Holders
		}
	}
	return nil
}
