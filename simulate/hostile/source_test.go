// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import "math/rand/v2"

// source turns bytes into decisions. When they end all further decisions are 0, so
// that shorter input is a simpler world.
type source struct{ data []byte }

func (s *source) intn(n int) int {
	if n <= 1 || len(s.data) == 0 {
		return 0
	}
	v := 0
	for left := n - 1; left > 0 && len(s.data) > 0; left >>= 8 {
		v = v<<8 | int(s.data[0])
		s.data = s.data[1:]
	}
	return v % n
}

func (s *source) done() bool { return len(s.data) == 0 }

func pick[T any](s *source, of ...T) T { return of[s.intn(len(of))] }

// seeded is the input for a run without a fuzzer.
func seeded(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 12))
	data := make([]byte, 4+r.IntN(120))
	for i := range data {
		data[i] = byte(r.UintN(256))
	}
	return data
}
