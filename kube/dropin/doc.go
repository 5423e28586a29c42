// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dropin puts kerf's allocator behind the constructor and the interface of
// k8s.io/dynamic-resource-allocation/structured, the stock allocator, for programs
// that embed that one: change structured.NewAllocator to dropin.NewAllocator.
//
// # Contract
//
//   - The answers are those of the stock allocator's most complete variant
//     ("experimental"): the first solution in listed order with the same devices
//     in the same order, configuration, consumed capacity and node selector;
//     share IDs are new each time. The same claims are refused on the same nodes.
//   - Features that are off are off: what needs them is an error, is not used, or
//     is ignored, as there.
//   - Errors have the same kinds and texts. Those that are about the node alone
//     wrap structured.ErrFailedAllocationOnNode; a cancelled context ends in an
//     error that wraps its cause. Selectors and derived attributes that fail
//     are errors if the stock allocator would come across them.
//   - An allocator may be used for several nodes and by several goroutines. Its
//     arguments are not changed.
//
// # Differences
//
//   - What Kubernetes 1.37 leaves open is settled as in 1.38: versions that differ in
//     build metadata alone are equal for constraints; a device of which there are
//     shares, and that cannot be shared any more, is given to nobody as a whole; a
//     negative amount of a capacity is an error, also where the request policy
//     would make an amount of it.
//   - There is an answer. The stock allocator tries combinations one by one and in
//     large impossible problems, and some possible ones, does not come to an end.
//   - Of several faults in the input another one may be reported.
//   - Where devices have been allocated together that must not be (compatibility
//     groups), what the stock allocator makes of it depends on the node for which
//     it was used first; here it does not.
//   - If the walk to an error takes back more than a million devices, the search
//     takes over: it reports the error where the claims do not fit, and gives the
//     solution where they do.
//   - A capacity has one name, whether a slice, a request or an allocation spells it with
//     the driver's domain or without. The stock allocator compares them letter by letter,
//     and where a slice has both its selectors read one or the other.
//   - There are no statistics and no log entries.
//
// # What is remembered
//
// Schedulers make an allocator for each pod, out of slices that rarely change.
// Whatever was found out about a list of slices (which belong to which node, the
// pools they make, which selectors match which devices) is kept with the cache of
// CEL expressions, so that a node costs as much as its own devices, however many
// others there are. This takes for granted that slices with a resourceVersion do
// not change, as those of informers do not; for others nothing is kept but the
// results of CEL expressions on equal devices. A bounded number of caches, lists
// and answers is kept.
package dropin
