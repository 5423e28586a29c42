// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// memory is what is kept from one allocator to the next. Schedulers make a new
// allocator for every pod but have one cache of CEL expressions, so memory goes
// with the cache.
type memory struct {
	cache   *selector.Cache
	matcher *selector.Matcher

	mutex    sync.Mutex
	clusters []*cluster // the last used first
}

const (
	// maxMemories bounds the caches that are known at a time; a program has one
	// as a rule.
	maxMemories = 8
	// maxClusters bounds the lists of slices that are known at a time: that of
	// the informer, and what simulations make of it.
	maxClusters = 4
)

var memories struct {
	mutex sync.Mutex
	list  []*memory // the last used first
}

func memoryOf(cache *selector.Cache) *memory {
	memories.mutex.Lock()
	defer memories.mutex.Unlock()
	m, rest := take(memories.list, maxMemories, func(m *memory) bool { return m.cache == cache })
	if m == nil {
		m = &memory{cache: cache, matcher: selector.New()}
		if cache != nil {
			m.matcher = selector.WithCache(cache)
		}
	}
	memories.list = append([]*memory{m}, rest...)
	return m
}

// cluster returns what is known about the list of slices.
func (m *memory) cluster(features structured.Features, list []*resourceapi.ResourceSlice) *cluster {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	c, rest := take(m.clusters, maxClusters, func(c *cluster) bool { return c.features == features && slices.Equal(c.slices, list) })
	if c == nil {
		if !immutable(list) {
			return newCluster(features, list, nil)
		}
		var before *registry[inventory.PoolID, []*pool]
		if i := slices.IndexFunc(m.clusters, func(c *cluster) bool { return c.features == features }); i >= 0 {
			before = m.clusters[i].pools
		}
		c = newCluster(features, slices.Clone(list), before)
	}
	m.clusters = append([]*cluster{c}, rest...)
	return c
}

// take removes the first match from a list and shortens the rest so that there is
// room for one.
func take[T any](list []*T, limit int, match func(*T) bool) (found *T, rest []*T) {
	for _, t := range list {
		switch {
		case found == nil && match(t):
			found = t
		case len(rest) < limit-1:
			rest = append(rest, t)
		}
	}
	return found, rest
}

// immutable reports whether all slices are objects that an API server stored.
// Informers hand those out, and nobody changes what comes from an informer.
func immutable(list []*resourceapi.ResourceSlice) bool {
	for _, slice := range list {
		if slice.ResourceVersion == "" {
			return false
		}
	}
	return true
}
