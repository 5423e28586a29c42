// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claim says what a pod and its claims mean. The API answers each of these
// questions with several fields of several objects; here is the one place that reads them
// together.
//
//   - [Refs]: which claims a pod has. [Asks]: what a claim asks for, alternatives of
//     prioritized lists (KEP-4816) included.
//   - [Ended], [ReservedFor], [UsedByOthers]: who uses a claim. [Untolerated],
//     [WithheldFrom]: whether another pod may join (KEP-5055, KEP-5517).
//   - [Reaches]: which nodes can use an allocated claim.
//   - [BindingOf]: whether allocated devices are ready for their pod (KEP-5007).
//   - [ExtendedResources], [DemandFor], [NewSpecial]: how devices serve extended resources
//     (KEP-5004). [SpecialOwner], [PurposeOf]: what a special claim is for.
//   - [Statuses], [PodRequests], [Room]: what devices take of their node (KEP-5517).
//
// # Invariants
//
//   - Objects are not changed. What is returned may share memory with them.
//   - Pods of manifests have no UID yet. They are known by namespace and name.
package claim
