// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package histories has no code but tests: it tells package inventory random histories
// of clusters in which amounts are nothing, absent, negative or huge, names come in both
// spellings, and claims hold what nobody would have given them.
//
// A history goes through every verb of an inventory, twice: as the command line knows a
// cluster, claim by claim, and as the scheduler does, whose manager adds up what shares
// consume and forgets sums of nothing. Of every state the same is expected: no panic; what
// is taken is the sum of what claims hold, whoever added it up; views of what would be if
// something were free do not overstate what is, and change nothing; snapshots stay as they
// are. Claims are allocated on the views by package alloc, whose Check agrees, and on both
// with the same result.
package histories
