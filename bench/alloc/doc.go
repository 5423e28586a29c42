// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alloc measures kerf's allocator beside the stock one, on the same
// problems in the same run. It has tests and benchmarks only:
//
//	go test ./bench/alloc -run Table -v -table      # the table of docs/performance.md
//	go test ./bench/alloc -run '^$' -bench .        # the same work as Go benchmarks
//
// Without flags, the tests check that both allocators give the same answers.
package alloc
