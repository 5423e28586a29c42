// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	long  = flag.Duration("histories", 0, "tell histories for so long, not a fixed number; goes with -timeout")
	first = flag.Uint64("seed", 0, "the number of the first history")
)

// few is the number of histories that are told without -histories.
const few = 1500

// FuzzHistories tells histories that a fuzzer makes up; without -fuzz the first ones.
func FuzzHistories(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seeded(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if problems := tell(data, map[string]int{}); len(problems) > 0 {
			t.Error(strings.Join(problems, "\n"))
		}
	})
}

// TestHistories tells histories that are the same in every run.
func TestHistories(t *testing.T) {
	stats, failures, begin := map[string]int{}, 0, time.Now()
	told := uint64(0)
	for ; *long == 0 && told < few || time.Since(begin) < *long; told++ {
		seed := *first + told
		problems := tell(seeded(seed), stats)
		if len(problems) == 0 {
			continue
		}
		if failures++; failures > 3 {
			t.Fatalf("seed %d: and more", seed)
		}
		small := shrink(seeded(seed), kind(problems))
		t.Errorf("seed %d, reduced to []byte(%q):\n%s", seed, small, strings.Join(tell(small, map[string]int{}), "\n"))
	}
	t.Logf("%d histories from seed %d: %v", told, *first, stats)
	for _, what := range []string{given, refused, badInput, "compared"} {
		if stats[what] < int(min(told, few))/10 {
			t.Errorf("%s only %d times; the generator is not balanced", what, stats[what])
		}
	}
}

// shrink makes a history as short as it can, so that the same goes wrong.
func shrink(data []byte, problem string) []byte {
	for n := len(data) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(data); {
			shorter := slices.Delete(slices.Clone(data), i, i+n)
			if kind(tell(shorter, map[string]int{})) == problem {
				data = shorter
			} else {
				i += n
			}
		}
	}
	return data
}

// kind is the first line of the first problem, without what is different in each history.
func kind(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	line, _, _ := strings.Cut(problems[0], "\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '-' {
			return -1
		}
		return r
	}, line)
}
