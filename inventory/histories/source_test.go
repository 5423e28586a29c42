// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// source makes choices out of bytes. When they are used up it always chooses the first.
type source struct{ data []byte }

func (s *source) done() bool { return len(s.data) == 0 }

func (s *source) intn(n int) int {
	if s.done() {
		return 0
	}
	b := int(s.data[0])
	s.data = s.data[1:]
	return b % n
}

func (s *source) often() bool { return s.intn(4) > 0 }

func (s *source) rarely() bool { return s.intn(8) == 7 }

func pick[T any](s *source, from ...T) T { return from[s.intn(len(from))] }

// seeded are the bytes of a history by its number.
func seeded(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 20261201))
	data := make([]byte, 40+r.IntN(600))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// amount is nothing as often as something, and now and then what nobody has.
func (s *source) amount() resource.Quantity {
	if s.rarely() {
		return resource.MustParse(pick(s, "1n", "-1", "-4", "9223372036854775807", "-9223372036854775808", "1e24", "1000000000000000000000001", "1e30", "0e9"))
	}
	return resource.MustParse(pick(s, "0", "0", "1", "4", "10", "2500m"))
}

const driver = "nic.example.com"

func (s *source) name() resourceapi.QualifiedName {
	return pick[resourceapi.QualifiedName](s, "bandwidth", driver+"/bandwidth", "bandwidth", driver+"/bandwidth", "bandwidth", driver+"/bandwidth",
		"queues", driver+"/queues", "other.example.com/bandwidth")
}

// amountsBy are up to three amounts, or no map at all.
func (s *source) amountsBy() map[resourceapi.QualifiedName]resource.Quantity {
	if s.rarely() {
		return nil
	}
	amounts := map[resourceapi.QualifiedName]resource.Quantity{}
	for range pick(s, 1, 0, 1, 1, 2, 3) {
		amounts[s.name()] = s.amount()
	}
	return amounts
}
