// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"k8s.io/client-go/tools/cache"
)

// Object is what an event of an informer is about. A deletion that was missed comes with
// the last that was known. ok is false for anything that is no T, nil included.
func Object[T any](event any) (object T, ok bool) {
	if unknown, missed := event.(cache.DeletedFinalStateUnknown); missed {
		event = unknown.Obj
	}
	object, ok = event.(T)
	return object, ok
}
