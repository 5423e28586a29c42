// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packing measures how many claims are refused because of the devices
// that others were given: kerf's strategies on the same streams of claims, beside
// what no allocator can do better. It has tests only:
//
//	go test ./bench/packing -run Table -v -table -timeout 1h   # the table of docs/performance.md
//
// Without flags, the tests play shorter streams and check that best fit refuses
// less than listed order, and that nothing is better than the bound.
//
// # What is played
//
// The nodes and device classes are those of examples/partitioned-gpus: four
// seven-slice cards on each node. Claims arrive at random, each wants partitions
// or a card, and those that get them leave after a random life. A claim that fits
// on no node when it arrives is refused and does not come back. All decisions are
// those of packages inventory and alloc. Listed order takes the first node that
// fits and is what the stock allocator gives there, which a test checks. The
// other strategies take the node where the devices cost least, by alloc.Cost, as
// kube/scheduler scores nodes.
//
// # The bound
//
// Whoever accepts claims has to find room for them at every moment. The bound
// forgets where on which card a claim is. It only keeps that at any moment the
// devices of all accepted claims, counted by shape, must be what so many cards
// can hold together, and even there parts of cards and of claims are fine. So it
// holds for allocators that know the future, refuse what would fit, and move
// devices that are in use.
//
// It is proved with prices. Give a device of each shape a price at each moment.
// Accepted claims pay for their devices as long as they have them. What they are
// worth is at most what they pay and, for those that pay less than they are
// worth, the difference. What they pay together is, at each moment, at most what
// the dearest filling of a card costs, times the number of cards. So
//
//	worth of accepted claims  <=  sum over moments of cards * dearest filling
//	                            + sum over all claims of max(0, worth - price of the stay)
//
// whatever the prices are. With a worth of one, that bounds the number of claims,
// with the memory slices that a claim needs as its worth, the slices. Prices that
// make the right side small are found by a method for linear programs; if it did
// badly, the bound would be weak, but not wrong. What a card can hold is found by
// trying all combinations of its devices, with no code of the allocator.
//
// The bound is far from what can be reached without knowing the future: it
// refuses a claim for a card that stays long in order to accept many small ones.
package packing
