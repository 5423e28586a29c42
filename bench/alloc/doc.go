// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alloc measures kerf's allocator beside the stock one, on the same
// problems in the same run. It has tests and benchmarks only:
//
//	go test ./bench/alloc -run Table -v -table      # the table of docs/performance.md
//	go test ./bench/alloc -run '^$' -bench .        # the same work as Go benchmarks
//
// Without flags, the tests check that both allocators give the same answers.
//
// # Attacks
//
// Attacks are input that the API accepts, up to its limits, and that is meant to
// take long. A kind of attack has parameters, one of them a seed; the same
// parameters give the same input. An attempt, with nothing known from earlier
// ones, is measured in a process of its own, which is ended when it takes too
// much. It goes up to the reason for the pod; what a person can ask for beyond
// that, with remedies, is measured apart from it, and so is the inventory's work.
//
//	go test ./bench/alloc -run Hostile -v -table -timeout 1h          # the table "hostile"
//	go test ./bench/alloc -run Hostile -v -attack 'shares requests=8' # one attack
//	go test ./bench/alloc -run Hostile -hostile 10m -seed 7 -timeout 1h
//
// The last draws attacks on nodes with up to 256 devices, and fails with the
// parameters of those above the limits. Without flags, small attacks of all kinds
// are tried in the test's own process and their effort is checked, and all are
// validated as the API server does.
package alloc
