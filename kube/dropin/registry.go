// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import "sync"

// registry is a map for several goroutines. What is in it is never taken out.
type registry[K comparable, V any] struct {
	mutex   sync.RWMutex
	entries map[K]V
}

func (r *registry[K, V]) get(key K) (V, bool) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	v, found := r.entries[key]
	return v, found
}

func (r *registry[K, V]) set(key K, v V) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.entries == nil {
		r.entries = map[K]V{}
	}
	r.entries[key] = v
}
