// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStillness: a process rests when none of its goroutines has anything to do. One
// that never rests is looked at in the end.
func TestStillness(t *testing.T) {
	still := newStillness()
	until := func() (looks int) {
		still.begin()
		for !still.look() {
			time.Sleep(glance)
		}
		return still.looks
	}
	var over atomic.Bool
	var busy sync.WaitGroup
	busy.Go(func() {
		for !over.Load() {
		}
	})
	if looks := until(); looks != restless {
		t.Errorf("a busy process was at rest after %d looks, want %d", looks, restless)
	}
	over.Store(true)
	busy.Wait()
	if looks := until(); looks < quiet || looks >= restless {
		t.Errorf("an idle process was at rest after %d looks, want from %d to %d", looks, quiet, restless)
	}
}
