// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
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

	stale     map[PoolID]staleness
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
		published: &Snapshot{pools: iradix.New[*poolEntry](), byNode: iradix.New[*poolEntry]()},
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

// staleForKept has looked at the pools whose devices are kept for somebody else than
// before, after one slice took the place of another.
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
			inv.staleUse(id.PoolID())
		}
	}
	for _, id := range devices {
		inv.ledger(id.PoolID()).set(id.Device, owner, byDevice[id])
		inv.staleUse(id.PoolID())
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

func (inv *Inventory) staleUse(id PoolID) {
	inv.stale[id] = max(inv.stale[id], useChanged)
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
		if old != nil {
			byNode.Delete(nodeKey(old.home, id))
			pools.Delete(poolKey(id))
		}
		if next != nil {
			byNode.Insert(nodeKey(next.home, id), next)
			pools.Insert(poolKey(id), next)
		}
	}
	clear(inv.stale)
	inv.published = &Snapshot{pools: pools.Commit(), byNode: byNode.Commit()}
	return inv.published
}

// entry makes the entry of a stale pool, nil where the pool is gone.
func (inv *Inventory) entry(id PoolID, old *poolEntry, how staleness) *poolEntry {
	l := inv.ledger(id)
	if old != nil {
		// Whoever took a device since the last snapshot may have seen it
		// as it was there, even if it changed or left in the meantime.
		l.remember(old.pool)
	}
	if len(inv.pools[id]) == 0 {
		if len(l.holds) == 0 {
			delete(inv.ledgers, id)
		}
		return nil
	}
	if old != nil && how == useChanged {
		return &poolEntry{pool: old.pool, use: l.use(old.pool), home: old.home}
	}
	return newEntry(newPool(id, newest(inv.pools[id]), inv.sortedRules(), inv.kept), l)
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
	pools, byNode *iradix.Tree[*poolEntry]
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
	add := func(_ []byte, e *poolEntry) bool {
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

// Pool returns a pool and what is taken of it, nil where there is none.
func (s *Snapshot) Pool(id PoolID) (*Pool, *PoolUse) {
	if e, found := s.pools.Get(poolKey(id)); found {
		return e.pool, e.use
	}
	return nil, nil
}

// Pools calls yield for every pool, by driver and name, until it returns false.
func (s *Snapshot) Pools(yield func(*Pool, *PoolUse) bool) {
	s.pools.Root().Walk(func(_ []byte, e *poolEntry) bool { return !yield(e.pool, e.use) })
}

// DevicesOf returns the devices of an allocation, in the order of its results; nil
// stands for those that are not published any more.
func (s *Snapshot) DevicesOf(a *resourceapi.AllocationResult) []*Device {
	devices := make([]*Device, len(a.Devices.Results))
	for i, r := range a.Devices.Results {
		if pool, _ := s.Pool(PoolID{Driver: r.Driver, Pool: r.Pool}); pool != nil {
			devices[i] = pool.Device(r.Device)
		}
	}
	return devices
}

// Holders returns the claims that hold the device, nil where it is free.
func (s *Snapshot) Holders(id DeviceID) []Holder {
	pool, use := s.Pool(id.PoolID())
	if pool == nil {
		return nil
	}
	occupancy := use.Gone[id.Device]
	if d := pool.Device(id.Device); d != nil {
		occupancy = use.Taken[d.Index]
	}
	if occupancy == nil {
		return nil
	}
	return occupancy.Holders
}
