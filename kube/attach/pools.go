// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

// pools puts the slices of drivers together to pools of nodes.
type pools struct {
	drivers  map[string]bool
	identity v1alpha1.DeviceIdentity
	slices   map[poolName]map[string]*resourceapi.ResourceSlice
	// told are the nodes of the pools that the planner knows.
	told map[poolName]string
}

type poolName struct{ driver, pool string }

func newPools(f *v1alpha1.Fabric) *pools {
	p := &pools{
		drivers: map[string]bool{}, identity: f.Spec.Identity,
		slices: map[poolName]map[string]*resourceapi.ResourceSlice{}, told: map[poolName]string{},
	}
	for _, m := range f.Spec.Models {
		p.drivers[m.Driver] = true
	}
	return p
}

// set takes a slice in, or out where it is gone, and tells the planner.
func (p *pools) set(planner *fabric.Planner, s *resourceapi.ResourceSlice, gone bool) {
	if !p.drivers[s.Spec.Driver] || s.Spec.NodeName == nil {
		return
	}
	name := poolName{s.Spec.Driver, s.Spec.Pool.Name}
	if p.slices[name] == nil {
		p.slices[name] = map[string]*resourceapi.ResourceSlice{}
	}
	p.slices[name][s.Name] = s
	if gone {
		delete(p.slices[name], s.Name)
	}
	p.tell(planner, name)
}

func (p *pools) tell(planner *fabric.Planner, name poolName) {
	if len(p.slices[name]) == 0 {
		delete(p.slices, name)
		if node, told := p.told[name]; told {
			planner.ForgetPool(node, name.driver, name.pool)
			delete(p.told, name)
		}
		return
	}
	current := p.current(name)
	if int64(len(current)) != current[0].Spec.Pool.ResourceSliceCount {
		return
	}
	pool := fabric.NodePool{Node: ptr.Deref(current[0].Spec.NodeName, ""), Driver: name.driver, Pool: name.pool}
	for _, s := range current {
		for i := range s.Spec.Devices {
			pool.Devices = append(pool.Devices, p.device(name.driver, &s.Spec.Devices[i]))
		}
	}
	if node, told := p.told[name]; told && node != pool.Node {
		planner.ForgetPool(node, name.driver, name.pool)
	}
	p.told[name] = pool.Node
	planner.ObservePool(pool)
}

// current are the slices of a pool's newest generation, by name.
func (p *pools) current(name poolName) []*resourceapi.ResourceSlice {
	var newest int64
	for _, s := range p.slices[name] {
		newest = max(newest, s.Spec.Pool.Generation)
	}
	var current []*resourceapi.ResourceSlice
	for _, key := range slices.Sorted(maps.Keys(p.slices[name])) {
		if s := p.slices[name][key]; s.Spec.Pool.Generation == newest {
			current = append(current, s)
		}
	}
	return current
}

func (p *pools) device(driver string, d *resourceapi.Device) fabric.NodeDevice {
	device := fabric.NodeDevice{Name: d.Name, Attributes: attributesOf(driver, d)}
	identity := device.Attributes[qualified(driver, p.identity.Attribute)]
	device.Identity = strings.TrimPrefix(identity, p.identity.TrimPrefix)
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
	for name, at := range p.told {
		if at == node && name.driver == driver {
			names = append(names, name.pool)
		}
	}
	slices.Sort(names)
	return names
}
