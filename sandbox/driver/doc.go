// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driver simulates a vendor's DRA driver on the nodes of a cluster, for
// devices that come and go.
//
// On each of its nodes the driver publishes one pool with the node's name: the
// devices that the node always had, and those that a fabric has put on the bus of
// its host. It does so as a real driver does: with the ResourceSlice controller of
// k8s.io/dynamic-resource-allocation, some time after the hardware has changed, with
// names of its own choice, and through package kube/augment.
//
// # Contract
//
//   - A device on the bus is published with uuid, serialNumber, productName and
//     pciBusID as the hardware has them, and its memory as capacity. Its name is
//     gpu-N with the smallest N that no device of the node has, for as long as it is
//     there: names are used again.
//   - What it publishes of a device otherwise than the hardware says, see [Driver.Show], is
//     published so on every node.
//   - The driver runs on a node from the moment that the Node exists until it is
//     gone. A Node that comes back gets a driver without memory.
//   - A driver that is killed on a node leaves its slices as they are. The one that
//     is started next publishes what it sees then.
//   - When Run has returned, everything that it started has ended.
package driver
