// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFillings compares what a card can hold with what the maker of the card says.
func TestFillings(t *testing.T) {
	c := clusterOf(t, 1)
	for _, tc := range []struct {
		shapes []string
		want   [][]int8
	}{
		{[]string{"1g.10gb"}, [][]int8{{7}}},
		{[]string{"1g.10gb+me"}, [][]int8{{1}}},
		{[]string{"1g.20gb"}, [][]int8{{4}}},
		{[]string{"card", "7g.80gb"}, [][]int8{{0, 1}, {1, 0}}},
		{[]string{"3g.40gb", "4g.40gb"}, [][]int8{{1, 1}, {2, 0}}},
		{[]string{"2g.20gb", "4g.40gb"}, [][]int8{{1, 1}, {3, 0}}},
		{[]string{"1g.10gb", "2g.20gb", "3g.40gb"}, [][]int8{{0, 0, 2}, {0, 2, 1}, {1, 3, 0}, {2, 1, 1}, {3, 2, 0}, {4, 0, 1}, {5, 1, 0}, {7, 0, 0}}},
		{[]string{"8Gi", "32Gi"}, [][]int8{{0, 2}, {4, 1}, {7, 0}}},
	} {
		var of []int
		for _, name := range tc.shapes {
			of = append(of, shapeNamed(name))
		}
		var got [][]int8
		for _, f := range c.card.fillings(of) {
			var held []int8
			for _, s := range of {
				held = append(held, f[s])
			}
			got = append(got, held)
		}
		slices.SortFunc(got, slices.Compare[[]int8])
		if !slices.EqualFunc(got, tc.want, slices.Equal[[]int8]) {
			t.Errorf("%v: %v, want %v", tc.shapes, got, tc.want)
		}
	}
}

// TestBound works out by hand how many claims can be accepted, and checks that
// good prices prove it and no prices prove less.
func TestBound(t *testing.T) {
	c := clusterOf(t, 1)
	card, half, small := kind{shapeNamed("card"), 1}, kind{shapeNamed("3g.40gb"), 1}, kind{shapeNamed("1g.10gb"), 1}
	for _, tc := range []struct {
		name   string
		cards  int
		stream []arrival
		want   int
	}{
		{"one after the other", 1, []arrival{{card, 0, 1}, {card, 1, 2}, {card, 2, 3}}, 3},
		{"one at a time", 1, []arrival{{card, 0, 9}, {card, 1, 9}, {card, 2, 9}}, 1},
		{"two halves of two cards each", 2, []arrival{{half, 0, 9}, {half, 1, 9}, {half, 2, 9}, {half, 3, 9}, {half, 4, 9}}, 4},
		// It takes to know the future: the first claim is better refused.
		{"a card for a long time, or three in turn", 1, []arrival{{card, 0, 9}, {card, 1, 2}, {card, 3, 4}, {card, 5, 6}}, 3},
		{"a card or three parts of it", 1, []arrival{{card, 0, 9}, {small, 1, 9}, {small, 2, 9}, {half, 3, 9}}, 3},
		{"devices of one claim count", 2, []arrival{{kind{half.shape, 2}, 0, 9}, {kind{half.shape, 2}, 1, 9}, {kind{half.shape, 2}, 2, 9}}, 2},
	} {
		l := newLedger(tc.stream, c.card, tc.cards, func(kind) float64 { return 1 })
		if got := l.lowest(2000); atMost(got) != tc.want || got < float64(tc.want)-1e-6 {
			t.Errorf("%s: the bound is %f, want %d", tc.name, got, tc.want)
		}
		random := rand.New(rand.NewPCG(1, 0))
		for range 100 {
			p := l.newPrices()
			for t := range p {
				for k := range p[t] {
					p[t][k] = random.ExpFloat64() / 2
				}
			}
			if got := l.bound(p); got < float64(tc.want)-1e-6 {
				t.Errorf("%s: prices %v give %f, less than the %d that are possible", tc.name, p, got, tc.want)
			}
		}
	}
}
