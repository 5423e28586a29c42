// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// directory looks up slices by a key. It goes through the list the first times
// and makes an index when it is asked more often: an allocator that is used for
// one node is done before an index would pay.
type directory[K comparable] struct {
	key func(*resourceapi.ResourceSlice) K

	mutex sync.Mutex
	asked int
	index map[K][]*resourceapi.ResourceSlice
}

// linear is the number of look-ups without an index.
const linear = 2

// get returns the slices with the key in the order of the list, which must be
// the same each time.
func (d *directory[K]) get(list []*resourceapi.ResourceSlice, key K) []*resourceapi.ResourceSlice {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.asked++
	switch {
	case d.index != nil:
		return d.index[key]
	case d.asked <= linear:
		var found []*resourceapi.ResourceSlice
		for _, slice := range list {
			if d.key(slice) == key {
				found = append(found, slice)
			}
		}
		return found
	}
	d.index = make(map[K][]*resourceapi.ResourceSlice)
	for _, slice := range list {
		k := d.key(slice)
		d.index[k] = append(d.index[k], slice)
	}
	return d.index[key]
}
