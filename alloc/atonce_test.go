// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"sync"
	"testing"
)

// TestAtOnce: several goroutines may solve one problem on one view, as a scheduler does that
// looks at nodes at once. It is for the race detector, and they have to agree.
func TestAtOnce(t *testing.T) {
	for seed := range uint64(60) {
		w := Generate(SeededBytes(seed), WithAll)
		problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: BestFit, Containers: w.Containers})
		if err != nil {
			t.Fatal(err)
		}
		view := w.View()
		var answers [4]string
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				outcome, err := problem.Allocate(view)
				if err != nil {
					answers[i] = err.Error()
					return
				}
				answers[i] = describeOutcome(&outcome)
			})
		}
		all.Wait()
		for _, answer := range answers[1:] {
			if answer != answers[0] {
				t.Errorf("seed %d: %s\nand at the same time\n%s", seed, answers[0], answer)
			}
		}
	}
}
