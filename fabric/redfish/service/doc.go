// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service is a simulated Redfish service of a fabric manager: hosts, and devices on a shelf that can be
// attached to them, over HTTP. It is for tests, demonstrations and trying by hand; it attaches nothing real.
//
// What it offers of DMTF Redfish: ServiceRoot, SessionService (X-Auth-Token, and basic authentication), Systems with
// the actions ComputerSystem.AddResourceBlock and RemoveResourceBlock and PATCH of Links.ResourceBlocks,
// CompositionService with ResourceBlocks and ResourceZones, PATCH of CompositionStatus.Reserved, Processors and
// PCIeDevices below the blocks, TaskService with task monitors, $expand, paged collections, ETags with If-Match and
// If-None-Match. Each host stands in the composition service as a block of type ComputerSystem.
//
// # The two truths
//
// The service tells what the manager believes: which block is composed to which system. What a host sees on its bus
// is another matter ([Service.Sees], [Options.Observer]), and faults make the two differ, as they do in reality.
//
// # Invariants
//
//   - A block is composed to at most one host, and at most one operation works on it.
//   - Work that has begun is finished whether or not the client still waits, unless the service is closed first: an
//     operation that was going on then never happened. Tasks are forgotten; the rest is in [State].
//   - ETags depend on the content alone, so they are the same after a restart.
//   - The observer is told of changes in their order, one call at a time, before the client gets its reply.
//   - Time comes from [Options.Clock]. A [ManualClock] makes a run repeatable.
package service
