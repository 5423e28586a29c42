// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate places pods on a dump of a cluster: which node and which
// devices they would get, or why they would wait. Nothing is written anywhere.
//
// A [World] is made from a dump. [World.Try] asks where one pod could go and
// changes nothing; [World.Place] also lets the pod have what it gets, so that the
// next one finds it taken.
//
// # What is simulated
//
//   - Devices: exactly what kerf-scheduler does, through packages inventory and
//     alloc. All claims of the pod are solved together; claims that do not exist
//     yet are made from their templates; claims that are allocated restrict the
//     nodes, and keep the pod waiting while others use them and new pods must not use
//     their devices (taints), or while they are being deleted.
//   - Binding conditions (KEP-5007) as claims have them now: a pod waits on its node for
//     devices that are not ready, and a claim with a device that failed is allocated anew
//     unless another pod uses it. What is allocated by the simulation becomes ready.
//   - Extended resources that device classes serve (KEP-5004), on nodes where no device
//     plugin offers them.
//   - Nodes, in simple form: spec.nodeName, unschedulable nodes, taints, node
//     selector and required node affinity, and requests of cpu, memory, ephemeral
//     storage, extended resources and the number of pods against what is
//     allocatable, with what devices take of it (KEP-5517). A pod that waits on its node
//     for its devices (KEP-5007) takes what it requests there.
//   - The choice: of the nodes that fit the one whose devices cost least
//     (alloc.Cost), then the one that is used least, then the first by name. A
//     scheduler also weighs what it knows beyond devices, so where nodes are
//     equally good for devices it may choose another one.
//
// Not simulated: affinity between pods, topology spread, volumes, preemption and
// pod groups.
//
// The package is pure and deterministic: the same dump and the same pods in the
// same order give the same verdicts.
package simulate
