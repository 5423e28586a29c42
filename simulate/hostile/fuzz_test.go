// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"kerf.dev/kerf/dump"
)

var (
	seeds = flag.Uint64("seeds", 200, "how many worlds TestSeededWorlds looks at")
	first = flag.Uint64("first", 0, "the seed of the first of them")
)

// FuzzWorlds looks at worlds that a fuzzer makes up; without -fuzz at those of
// testdata/fuzz.
func FuzzWorlds(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(seeded(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := generate(data)
		if problems := examine(d, map[string]int{}); len(problems) > 0 {
			t.Errorf("%s\n%s", strings.Join(problems, "\n"), text(t, d))
		}
	})
}

// TestSeededWorlds looks at worlds that are the same in every run.
func TestSeededWorlds(t *testing.T) {
	stats, failures := map[string]int{}, 0
	for seed := *first; seed < *first+*seeds; seed++ {
		problems := examine(generate(seeded(seed)), stats)
		if len(problems) == 0 {
			continue
		}
		if failures++; failures > 3 {
			t.Fatalf("seed %d: and more", seed)
		}
		small := shrink(seeded(seed), kindOfProblem(problems))
		d := generate(small)
		t.Errorf("seed %d, reduced to []byte(%q):\n%s\n%s", seed, small, strings.Join(examine(d, map[string]int{}), "\n"), text(t, d))
	}
	t.Logf("of %d worlds: %v", *seeds, stats)
	for _, answer := range []string{fit, refused, gaveUp, "findings"} {
		if stats[answer] == 0 {
			t.Errorf("in no world %q; the generator is not balanced", answer)
		}
	}
}

// text is a world as a file.
func text(t *testing.T, d *dump.Dump) []byte {
	t.Helper()
	written, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const most = 20_000
	return written[:min(len(written), most)]
}

// shrink makes input as short as it can, so that the same kind of problem stays.
func shrink(data []byte, kind string) []byte {
	same := func(data []byte) bool {
		return kindOfProblem(examine(generate(data), map[string]int{})) == kind
	}
	for n := len(data) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(data); {
			if shorter := slices.Delete(slices.Clone(data), i, i+n); same(shorter) {
				data = shorter
			} else {
				i += n
			}
		}
	}
	return data
}

// kindOfProblem is the first problem, without what differs between worlds.
func kindOfProblem(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(problems[0], "\n")
	parts := strings.Split(first, ":")
	return parts[0] + parts[len(parts)-1][:min(12, len(parts[len(parts)-1]))]
}
