// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// split divides a pool among the nodes, where they reach different slices of it and
// these contradict each other: there are several generations, or more slices than there
// should be. What decides about a node's pool are the slices that the node reaches,
// those of the highest generation among them. Where these are all that there should be,
// nobody else's count. Where they are not, all slices of that generation count, unless
// there is a higher one.
//
// Slices that do not contradict each other need no split: whoever reaches all that there
// should be reaches the whole pool.
type split struct {
	// newest are the slices of the highest generation.
	newest []*resourceapi.ResourceSlice
	// owners are the slices for one node, by its name; shared are those for several,
	// by which nodes these are.
	owners map[string]*camp
	shared []*camp
	// publishers are the names of the owners, sorted.
	publishers []string
	// parts says which of poolEntry.parts nodes have whose portion is complete,
	// superseded which those have for whose portion there is a higher generation. The
	// others of the highest generation have the whole pool.
	parts, superseded map[portion]int
}

// wholePool stands for poolEntry.whole where it is among the parts.
const wholePool = -1

// camp is slices that the same nodes reach, the highest generation of them.
type camp struct {
	generation int64
	slices     []*resourceapi.ResourceSlice
	reaches    []Reach
	everyone   bool
}

func (c *camp) isFor(node *v1.Node) bool {
	return slices.ContainsFunc(c.reaches, func(r Reach) bool { return r.Node(node) })
}

// portion is the slices of one generation that a node reaches: those that are for it
// alone, where owner is its name, and those of some of the shared camps.
type portion struct {
	owner      string
	generation int64
	// camps has a bit for each shared camp of the generation.
	camps uint64
}

const (
	// maxCamps bounds the shared camps of a generation whose combinations are looked at
	// one by one. With more, only nodes that reach none or all of them have parts.
	maxCamps  = 4
	allCamps  = ^uint64(0)
	someCamps = allCamps - 1
)

// newSplit returns nil where all nodes have the same pool.
func newSplit(of map[string]*resourceapi.ResourceSlice) *split {
	if agree(of) {
		return nil
	}
	s := &split{newest: newest(of), owners: map[string]*camp{}, parts: map[portion]int{}, superseded: map[portion]int{}}
	shared := map[string]*camp{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		slice := of[name]
		owner, selection := selectionOf(slice)
		switch {
		case owner != "":
			s.owners[owner] = s.owners[owner].with(slice)
		case shared[selection] != nil:
			shared[selection].with(slice)
		default:
			shared[selection] = shared[selection].with(slice)
			s.shared = append(s.shared, shared[selection])
		}
	}
	if len(s.owners)+len(s.shared) == 1 {
		return nil
	}
	s.publishers = slices.Sorted(maps.Keys(s.owners))
	return s
}

// agree tells whether the slices are of one generation and not more than they say.
func agree(of map[string]*resourceapi.ResourceSlice) bool {
	var first *resourceapi.ResourcePool
	for _, slice := range of {
		p := &slice.Spec.Pool
		if first == nil {
			first = p
		}
		if p.Generation != first.Generation || p.ResourceSliceCount != first.ResourceSliceCount || int64(len(of)) > p.ResourceSliceCount {
			return false
		}
	}
	return true
}

// selectionOf returns the only node that a slice is for, or what tells slices for
// different nodes apart.
func selectionOf(slice *resourceapi.ResourceSlice) (owner, selection string) {
	switch spec := &slice.Spec; {
	case publisherOf(slice) != "":
		return *spec.NodeName, ""
	case spec.AllNodes != nil && *spec.AllNodes:
		return "", "all"
	case spec.NodeSelector != nil:
		return "", "some " + spec.NodeSelector.String()
	}
	return "", "each " + slice.Name
}

// publisherOf returns the node that may have published the slice: drivers on nodes
// publish what is for their node.
func publisherOf(slice *resourceapi.ResourceSlice) string {
	if slice.Spec.NodeName == nil {
		return ""
	}
	return *slice.Spec.NodeName
}

// with adds a slice; the camp may be nil.
func (c *camp) with(slice *resourceapi.ResourceSlice) *camp {
	if c == nil {
		c = &camp{generation: slice.Spec.Pool.Generation, reaches: reachesOf(slice)}
		c.everyone = len(c.reaches) == 1 && c.reaches[0].AllNodes
	}
	switch cmp.Compare(slice.Spec.Pool.Generation, c.generation) {
	case 0:
		c.slices = append(c.slices, slice)
	case 1:
		c.generation, c.slices = slice.Spec.Pool.Generation, []*resourceapi.ResourceSlice{slice}
	}
	return c
}

// reachesOf returns the node selections of a slice. One that cannot be parsed reaches
// no node; that this is a problem of the pool is said elsewhere.
func reachesOf(slice *resourceapi.ResourceSlice) []Reach {
	spec := &slice.Spec
	if spec.PerDeviceNodeSelection == nil || !*spec.PerDeviceNodeSelection {
		r, _ := newReach(spec.NodeName, spec.AllNodes, spec.NodeSelector)
		return []Reach{r}
	}
	reaches := make([]Reach, len(spec.Devices))
	for i := range spec.Devices {
		reaches[i], _ = newReach(spec.Devices[i].NodeName, spec.Devices[i].AllNodes, spec.Devices[i].NodeSelector)
	}
	return reaches
}

// divide finds out which portions there are. It has parts built out of slices, which
// returns their index, and reports whether some node has the whole pool.
func (s *split) divide(build func(slices []*resourceapi.ResourceSlice, superseded bool) int) (whole bool) {
	for _, owner := range append(slices.Clone(s.publishers), "") {
		for _, generation := range s.generations(owner) {
			incomplete := false
			for _, camps := range s.combinations(generation) {
				key := portion{owner, generation, camps}
				near := s.slicesOf(key)
				switch {
				case len(near) == 0:
				case countProblem(near) != nil:
					incomplete = true
				case len(near) == len(s.newest) && generation == s.generation():
					s.parts[key], whole = wholePool, true
				default:
					s.parts[key] = build(near, false)
				}
			}
			if generation == s.generation() {
				whole = whole || incomplete
			} else if near := s.slicesOf(portion{owner, generation, allCamps}); incomplete && slices.ContainsFunc(near, hasDevices) {
				s.superseded[portion{owner: owner, generation: generation}] = build(near, true)
			}
		}
	}
	return whole
}

func hasDevices(slice *resourceapi.ResourceSlice) bool { return len(slice.Spec.Devices) > 0 }

// generation is the highest.
func (s *split) generation() int64 { return s.newest[0].Spec.Pool.Generation }

// generations are those that portions of the owner may have, for no owner those of the
// shared camps: none below what everyone reaches.
func (s *split) generations(owner string) []int64 {
	var found []int64
	if owner != "" {
		found = append(found, s.owners[owner].generation)
	}
	for _, c := range s.shared {
		if owner == "" && !slices.Contains(found, c.generation) {
			found = append(found, c.generation)
		}
	}
	return slices.DeleteFunc(found, func(generation int64) bool {
		return slices.ContainsFunc(s.shared, func(c *camp) bool { return c.everyone && c.generation > generation })
	})
}

func (s *split) sharedOf(generation int64) []*camp {
	return slices.DeleteFunc(slices.Clone(s.shared), func(c *camp) bool { return c.generation != generation })
}

// combinations are those of the generation's shared camps that a node may reach.
func (s *split) combinations(generation int64) []uint64 {
	camps := s.sharedOf(generation)
	if len(camps) > maxCamps {
		return []uint64{0, allCamps}
	}
	var always uint64
	for i, c := range camps {
		if c.everyone {
			always |= 1 << i
		}
	}
	var found []uint64
	for combination := range uint64(1) << len(camps) {
		if combination&always == always {
			found = append(found, combination)
		}
	}
	return found
}

func (s *split) slicesOf(key portion) []*resourceapi.ResourceSlice {
	var found []*resourceapi.ResourceSlice
	if key.owner != "" {
		found = append(found, s.owners[key.owner].slices...)
	}
	for i, c := range s.sharedOf(key.generation) {
		if key.camps == allCamps || key.camps&(1<<i) != 0 {
			found = append(found, c.slices...)
		}
	}
	return found
}

// partOf returns the index of the node's part, ok is false where it has none.
func (s *split) partOf(node *v1.Node) (index int, ok bool) {
	key, ok := s.portionOf(node)
	if !ok {
		return 0, false
	}
	switch index, found := s.parts[key]; {
	case found:
		return index, true
	case key.generation == s.generation():
		return wholePool, true
	}
	key.camps = 0
	index, ok = s.superseded[key]
	return index, ok
}

// portionOf finds out which slices the node reaches.
func (s *split) portionOf(node *v1.Node) (key portion, ok bool) {
	own := s.owners[node.Name]
	if own != nil {
		key.generation, ok = own.generation, true
	}
	reached := make([]bool, len(s.shared))
	for i, c := range s.shared {
		if reached[i] = c.isFor(node); reached[i] && (!ok || c.generation > key.generation) {
			key.generation, ok = c.generation, true
		}
	}
	if own != nil && own.generation == key.generation {
		key.owner = node.Name
	}
	key.camps = s.combination(key.generation, reached)
	return key, ok
}

// combination puts the shared camps of a generation that a node reaches into one word.
func (s *split) combination(generation int64, reached []bool) uint64 {
	var combination uint64
	of, in := 0, 0
	for i, c := range s.shared {
		if c.generation != generation {
			continue
		}
		if reached[i] {
			combination |= 1 << (of % 64)
			in++
		}
		of++
	}
	switch {
	case of <= maxCamps || in == 0:
		return combination
	case in == of:
		return allCamps
	}
	return someCamps
}

// onlyNode returns the node by whose name the selector selects, if it does.
func onlyNode(selector *v1.NodeSelector) string {
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, r := range selector.NodeSelectorTerms[0].MatchFields {
		if r.Key == metav1.ObjectNameField && r.Operator == v1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
