// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// PoolID names a pool: pool names are only unique within their driver.
type PoolID struct {
	Driver, Pool string
}

// String returns driver/pool.
func (id PoolID) String() string { return id.Driver + "/" + id.Pool }

// Compare orders pools by driver, then name.
func (id PoolID) Compare(other PoolID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), cmp.Compare(id.Pool, other.Pool))
}

// Pool is the highest generation of a resource pool.
type Pool struct {
	ID         PoolID
	Generation int64
	// Problem is set where nothing may be allocated from the pool: the first
	// of Problems.
	Problem  *PoolProblem
	Problems []*PoolProblem
	// Slices that make the pool, by name.
	Slices []*resourceapi.ResourceSlice
	// Devices in listed order. A pool with a problem keeps those that are
	// visible, so that it can be shown.
	Devices []*Device
	// Sets are the counter sets, by name; Counters those of all sets, one
	// set after the other, by name within the set.
	Sets     []CounterSet
	Counters []Counter
	// Publishers are the nodes that publish slices for themselves in a pool of this
	// name, sorted, where these and the other slices contradict each other. The pool is
	// then what some nodes have: see split.
	Publishers []string

	byName map[string]*Device
	// owner is the only node that the slices are for, where each is for that node
	// alone.
	owner string
	// targets are the node selections of slices without devices.
	targets []Reach
}

// Device returns the device with that name, nil where the pool has none.
func (p *Pool) Device(name string) *Device { return p.byName[name] }

// targetsNode reports whether a slice without devices targets the node. Such a
// pool is missing what the node is waiting for.
func (p *Pool) targetsNode(node *v1.Node) bool {
	return slices.ContainsFunc(p.targets, func(r Reach) bool { return r.Node(node) })
}

// CounterSet is a named group of counters (sharedCounters, KEP-4815).
type CounterSet struct {
	Name string
	// Counters First..End-1 of Pool.Counters belong to the set.
	First, End int
}

// Counter is one shared counter and its published value.
type Counter struct {
	Set   int // index in Pool.Sets
	Name  string
	Value Amount
}

// ProblemKind is the reason why a pool offers nothing.
type ProblemKind string

// The kinds of problems. Only Incomplete is expected in a healthy cluster, and
// only while a driver replaces its slices.
const (
	// Incomplete: Have of Want slices of the highest generation are there.
	Incomplete ProblemKind = "Incomplete"
	// Superseded: Have of Want slices are for the node, of a generation that is not
	// the highest: the slice Name, of the node Node, has Other.
	Superseded ProblemKind = "Superseded"
	// CountMismatch: slices disagree on resourceSliceCount (Want and Other).
	CountMismatch ProblemKind = "CountMismatch"
	// DuplicateDevice: the device name Name is published twice.
	DuplicateDevice ProblemKind = "DuplicateDevice"
	// DuplicateCounterSet: the counter set Name is published twice.
	DuplicateCounterSet ProblemKind = "DuplicateCounterSet"
	// MissingCounterSet: Device consumes from the counter set Name, which
	// the pool does not have.
	MissingCounterSet ProblemKind = "MissingCounterSet"
	// MissingCounter: Device consumes Counter of the counter set Name, which
	// the set does not have.
	MissingCounter ProblemKind = "MissingCounter"
	// BadNodeSelector: the node selector of the slice Name cannot be parsed.
	BadNodeSelector ProblemKind = "BadNodeSelector"
	// Uncountable: Field of the slice Name is an amount that nobody can compute with.
	Uncountable ProblemKind = "Uncountable"
)

// PoolProblem says why nothing may be allocated from a pool. Which of the
// fields are set depends on the kind. Its wording is package explain's.
type PoolProblem struct {
	Kind ProblemKind
	// Have and Want count slices; Other is a second, different Want, or generation.
	Have, Want, Other int64
	// Name is the object at fault; Slices are the slices that publish it.
	Name    string
	Node    string
	Device  string
	Counter string
	Slices  []string
	// Field is the path of a field of the slice.
	Field string
	// Detail is the parser's message of a BadNodeSelector.
	Detail string
}

// NewPool assembles a pool out of all its slices of one generation, at least one,
// in any order. Rules are the DeviceTaintRules whose taints are not part of the
// slices already, sorted by name.
func NewPool(id PoolID, of []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) *Pool {
	return newPool(id, of, rules, nil)
}

// newPool also has devices kept for claims for which a fabric attached them.
func newPool(id PoolID, of []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule, k *kept) *Pool {
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	devices := 0
	for _, slice := range of {
		devices += len(slice.Spec.Devices)
	}
	p := &Pool{ID: id, Generation: of[0].Spec.Pool.Generation, Slices: of, Devices: make([]*Device, 0, devices), byName: make(map[string]*Device, devices)}
	if p.owner = publisherOf(of[0]); slices.ContainsFunc(of, func(s *resourceapi.ResourceSlice) bool { return publisherOf(s) != p.owner }) {
		p.owner = ""
	}
	p.fail(countProblem(of))
	p.addCounterSets(of)
	for _, slice := range of {
		if p.checkCountable(slice) {
			p.addDevices(slice, rules, k)
		}
	}
	return p
}

// fail records a problem; the order of the checks is fixed, so the same slices
// always give the same problems.
func (p *Pool) fail(problem *PoolProblem) {
	if problem == nil {
		return
	}
	if p.Problem == nil {
		p.Problem = problem
	}
	p.Problems = append(p.Problems, problem)
}

// supersede says that there is a higher generation than that of the pool.
func (p *Pool) supersede(by []*resourceapi.ResourceSlice) {
	newer := slices.MinFunc(by, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	p.Problem = &PoolProblem{
		Kind: Superseded, Have: int64(len(p.Slices)), Want: p.Slices[0].Spec.Pool.ResourceSliceCount,
		Other: newer.Spec.Pool.Generation, Name: newer.Name, Node: publisherOf(newer),
	}
	p.Problems = []*PoolProblem{p.Problem}
}

func countProblem(of []*resourceapi.ResourceSlice) *PoolProblem {
	want := of[0].Spec.Pool.ResourceSliceCount
	for _, slice := range of {
		if other := slice.Spec.Pool.ResourceSliceCount; other != want {
			return &PoolProblem{Kind: CountMismatch, Want: want, Other: other, Slices: []string{of[0].Name, slice.Name}}
		}
	}
	if have := int64(len(of)); have != want {
		return &PoolProblem{Kind: Incomplete, Have: have, Want: want}
	}
	return nil
}

func (p *Pool) addCounterSets(of []*resourceapi.ResourceSlice) {
	type published struct {
		set   *resourceapi.CounterSet
		slice string
	}
	var sets []published
	for _, slice := range of {
		for i := range slice.Spec.SharedCounters {
			sets = append(sets, published{&slice.Spec.SharedCounters[i], slice.Name})
		}
	}
	slices.SortStableFunc(sets, func(a, b published) int { return cmp.Compare(a.set.Name, b.set.Name) })
	for i, s := range sets {
		if i > 0 && sets[i-1].set.Name == s.set.Name {
			p.fail(&PoolProblem{Kind: DuplicateCounterSet, Name: s.set.Name, Slices: []string{sets[i-1].slice, s.slice}})
			continue
		}
		set := CounterSet{Name: s.set.Name, First: len(p.Counters)}
		for _, name := range slices.Sorted(maps.Keys(s.set.Counters)) {
			p.Counters = append(p.Counters, Counter{Set: len(p.Sets), Name: name, Value: AmountOf(s.set.Counters[name].Value)})
		}
		set.End = len(p.Counters)
		p.Sets = append(p.Sets, set)
	}
}

func (p *Pool) addDevices(slice *resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule, k *kept) {
	perDevice := slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection
	shared := p.reach(slice, slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector)
	if len(slice.Spec.Devices) == 0 {
		p.targets = append(p.targets, shared)
	}
	block := make([]Device, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		spec, d := &slice.Spec.Devices[i], &block[i]
		*d = Device{
			ID:    DeviceID{Driver: p.ID.Driver, Pool: p.ID.Pool, Device: spec.Name},
			Spec:  OneSpelling(p.ID.Driver, spec),
			Slice: slice,
			Index: len(p.Devices),
			Reach: shared,
		}
		if perDevice {
			d.Reach = p.reach(slice, spec.NodeName, spec.AllNodes, spec.NodeSelector)
		}
		d.Taints = append(taintsOf(d, rules), k.taints(slice, spec)...)
		p.resolveCounters(d)
		if other, found := p.byName[spec.Name]; found {
			p.fail(&PoolProblem{Kind: DuplicateDevice, Name: spec.Name, Slices: []string{other.Slice.Name, slice.Name}})
		}
		p.byName[spec.Name] = d
		p.Devices = append(p.Devices, d)
	}
}

// reach resolves a node selection of the slice.
func (p *Pool) reach(slice *resourceapi.ResourceSlice, nodeName *string, allNodes *bool, selector *v1.NodeSelector) Reach {
	r, err := newReach(nodeName, allNodes, selector)
	if err != nil {
		p.fail(&PoolProblem{Kind: BadNodeSelector, Name: slice.Name, Detail: err.Error()})
	}
	return r
}

// resolveCounters turns names of counter sets and counters into positions.
func (p *Pool) resolveCounters(d *Device) {
	for i := range d.Spec.ConsumesCounters {
		consumes := &d.Spec.ConsumesCounters[i]
		set, found := slices.BinarySearchFunc(p.Sets, consumes.CounterSet, func(s CounterSet, name string) int { return cmp.Compare(s.Name, name) })
		if !found {
			p.fail(&PoolProblem{Kind: MissingCounterSet, Name: consumes.CounterSet, Device: d.ID.Device, Slices: []string{d.Slice.Name}})
			continue
		}
		d.Groups = append(d.Groups, SetGroups{Set: set, Groups: consumes.CompatibilityGroups})
		of := p.Counters[p.Sets[set].First:p.Sets[set].End]
		for _, name := range slices.Sorted(maps.Keys(consumes.Counters)) {
			c, found := slices.BinarySearchFunc(of, name, func(c Counter, name string) int { return cmp.Compare(c.Name, name) })
			if !found {
				p.fail(&PoolProblem{Kind: MissingCounter, Name: consumes.CounterSet, Counter: name, Device: d.ID.Device, Slices: []string{d.Slice.Name}})
				continue
			}
			d.Draws = append(d.Draws, Draw{Counter: p.Sets[set].First + c, Amount: AmountOf(consumes.Counters[name].Value)})
		}
	}
	slices.SortFunc(d.Draws, func(a, b Draw) int { return cmp.Compare(a.Counter, b.Counter) })
	slices.SortFunc(d.Groups, func(a, b SetGroups) int { return cmp.Compare(a.Set, b.Set) })
}

// taintsOf returns the published taints of a device, then those of the rules
// that select it (DeviceTaintRule, KEP-5055). Rules come sorted by name.
func taintsOf(d *Device, rules []*resourceapi.DeviceTaintRule) []Taint {
	var taints []Taint
	for _, t := range d.Spec.Taints {
		taints = append(taints, Taint{DeviceTaint: t})
	}
	for _, rule := range rules {
		if ruleSelects(rule, d.ID) {
			taints = append(taints, Taint{DeviceTaint: rule.Spec.Taint, Rule: rule.Name})
		}
	}
	return taints
}

// ruleSelects follows DeviceTaintRule.spec.deviceSelector: no selector matches
// nothing, an empty one everything, each field that is set narrows.
func ruleSelects(rule *resourceapi.DeviceTaintRule, id DeviceID) bool {
	s := rule.Spec.DeviceSelector
	return s != nil &&
		(s.Driver == nil || *s.Driver == id.Driver) &&
		(s.Pool == nil || *s.Pool == id.Pool) &&
		(s.Device == nil || *s.Device == id.Device)
}

// identify works out the content of all devices, once for all who will ask.
func (p *Pool) identify() {
	for _, d := range p.Devices {
		d.content = contentOf(p.ID.Driver, d.Spec)
	}
}

// String names the pool, its generation and size, for tests and logs.
func (p *Pool) String() string {
	return fmt.Sprintf("%s generation %d, %d devices", p.ID, p.Generation, len(p.Devices))
}
