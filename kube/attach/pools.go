// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

// pools puts the slices of drivers together to pools of nodes, as package inventory does
// for the scheduler.
type pools struct {
	drivers  map[string]bool
	identity v1alpha1.DeviceIdentity
	// own is the fabric's pool, which is nobody's device yet.
	own string
	inv *inventory.Inventory
	// of are the nodes for which slices of a pool are, and how many. told are those
	// whose pool the planner knows, with the devices when it was valid last.
	of   map[inventory.PoolID]map[string]int
	told map[inventory.PoolID]map[string][]fabric.NodeDevice
	// slices are those that are counted in of, by name.
	slices map[string]*resourceapi.ResourceSlice
	// stale are the pools that changed since the planner was told.
	stale map[inventory.PoolID]bool
}

// listener is the part of a planner that hears of pools.
type listener interface {
	ObservePool(fabric.NodePool)
	ForgetPool(node, driver, pool string)
}

func newPools(f *v1alpha1.Fabric) *pools {
	p := &pools{
		drivers: map[string]bool{}, identity: f.Spec.Identity, own: fabric.PoolName(f.Name), inv: inventory.New(),
		of: map[inventory.PoolID]map[string]int{}, told: map[inventory.PoolID]map[string][]fabric.NodeDevice{},
		slices: map[string]*resourceapi.ResourceSlice{}, stale: map[inventory.PoolID]bool{},
	}
	for _, driver := range modelDrivers(f) {
		p.drivers[driver] = true
	}
	return p
}

// set takes a slice in, or out where it is gone. The planner is told later.
func (p *pools) set(s *resourceapi.ResourceSlice, gone bool) {
	if !p.drivers[s.Spec.Driver] || s.Spec.Pool.Name == p.own {
		return
	}
	if old := p.slices[s.Name]; old != nil {
		p.count(old, -1)
	}
	if gone {
		delete(p.slices, s.Name)
		p.inv.DeleteSlice(s.Name)
		p.stale[poolOf(s)] = true
		return
	}
	p.slices[s.Name] = s
	p.inv.SetSlice(s)
	p.count(s, 1)
}

func poolOf(s *resourceapi.ResourceSlice) inventory.PoolID {
	return inventory.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
}

// count counts a slice for the node that it is for, or with -1 discounts it.
func (p *pools) count(s *resourceapi.ResourceSlice, by int) {
	id, node := poolOf(s), ptr.Deref(s.Spec.NodeName, "")
	p.stale[id] = true
	if node == "" {
		return
	}
	if p.of[id] == nil {
		p.of[id] = map[string]int{}
	}
	if p.of[id][node] += by; p.of[id][node] == 0 {
		delete(p.of[id], node)
	}
	if len(p.of[id]) == 0 {
		delete(p.of, id)
	}
}

// tell lets the planner know of the pools that changed, once for all changes so far.
func (p *pools) tell(planner listener) {
	snapshot := p.inv.Snapshot()
	for _, id := range slices.SortedFunc(maps.Keys(p.stale), inventory.PoolID.Compare) {
		for node := range p.told[id] {
			if p.of[id][node] == 0 {
				planner.ForgetPool(node, id.Driver, id.Pool)
				delete(p.told[id], node)
			}
		}
		if len(p.told[id]) == 0 {
			delete(p.told, id)
		}
		p.tellNodes(planner, snapshot, id)
	}
	clear(p.stale)
}

// tellNodes tells how nodes have the pool. What is not complete, or not valid, is left as
// it was told, but for devices that are the reason why it is not valid.
func (p *pools) tellNodes(planner listener, snapshot *inventory.Snapshot, id inventory.PoolID) {
	var last *inventory.Pool
	var devices map[string][]*inventory.Device
	var flaws map[string]string
	for _, name := range slices.Sorted(maps.Keys(p.of[id])) {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pool := snapshot.PoolOn(id, node)
		if pool != last {
			last, devices, flaws = pool, nil, nil
			if pool != nil {
				devices, flaws = byNode(pool), culprits(pool)
			}
		}
		if pool == nil || pool.Problem != nil && len(flaws) == 0 {
			continue
		}
		on := fabric.NodePool{Node: name, Driver: id.Driver, Pool: id.Pool}
		for _, d := range slices.Concat(devices[name], devices[""]) {
			if d.Reach.Node(node) {
				device := p.device(id.Driver, d.Spec)
				device.Flaw = cmp.Or(flaws[d.ID.Device], flawOf(pool, d))
				on.Devices = append(on.Devices, device)
			}
		}
		if p.told[id] == nil {
			p.told[id] = map[string][]fabric.NodeDevice{}
		}
		before := p.told[id][name]
		if p.told[id][name] = on.Devices; pool.Problem != nil {
			p.told[id][name] = before
			on.Devices = despite(on.Devices, before)
		}
		planner.ObservePool(on)
	}
}

// despite are the devices of a pool that is not valid: those that make it so, and the
// others as they were.
func despite(now, before []fabric.NodeDevice) []fabric.NodeDevice {
	flawed := slices.DeleteFunc(now, func(d fabric.NodeDevice) bool { return d.Flaw == "" })
	return append(flawed, slices.DeleteFunc(slices.Clone(before), func(d fabric.NodeDevice) bool {
		return slices.ContainsFunc(flawed, func(f fabric.NodeDevice) bool { return f.Name == d.Name })
	})...)
}

// byNode has the devices of each node, with no name those for several.
func byNode(pool *inventory.Pool) map[string][]*inventory.Device {
	devices := map[string][]*inventory.Device{}
	for _, d := range pool.Devices {
		devices[d.Reach.NodeName] = append(devices[d.Reach.NodeName], d)
	}
	return devices
}

func (p *pools) device(driver string, d *resourceapi.Device) fabric.NodeDevice {
	device := fabric.NodeDevice{
		Name:       d.Name,
		Attributes: byFullName(driver, d.Attributes, worded),
	}
	if len(d.Capacity) > 0 {
		device.Capacity = byFullName(driver, d.Capacity, func(c resourceapi.DeviceCapacity) resource.Quantity { return c.Value })
	}
	_, identity, _ := inventory.Named(d.Attributes, driver, inventory.FullName(driver, resourceapi.QualifiedName(p.identity.Attribute)))
	device.Identity = strings.TrimPrefix(text(identity), p.identity.TrimPrefix)
	for _, t := range d.Taints {
		if t.Key == inventory.ClaimTaint {
			device.ClaimTaint = types.UID(t.Value)
		}
	}
	return device
}

// on lists the names of a driver's pools on a node, sorted.
func (p *pools) on(node, driver string) []string {
	var names []string
	for id, nodes := range p.told {
		if _, told := nodes[node]; told && id.Driver == driver {
			names = append(names, id.Pool)
		}
	}
	slices.Sort(names)
	return names
}
