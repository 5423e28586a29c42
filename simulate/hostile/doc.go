// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has no code but tests: it asks alloc, explain, lint, dump and
// simulate about random clusters that nobody would build on purpose.
//
// A world begins as one of the dumps in testdata/worlds. Then anything in its
// objects may be replaced: by nothing, zero, a huge number or amount, another
// spelling, the name of something else, a value of the same type from elsewhere, a
// list as long as the API allows or longer, a selector that fails or is deep. What an
// API server would refuse is not left out: dumps and manifests have it.
//
// Of every world, the same is expected: no panic; one answer, whatever the order of
// objects and whether the dump was written and read in between; alloc, simulate and
// explain of one mind about what fits, with every strategy; results that
// alloc.Check accepts; effort within the budget; and messages that name the object.
package hostile
