// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rack is what a sandbox runs for fabrics: a simulated shelf of devices, the
// Redfish service that manages it, kerf-controller, and drivers that publish what arrives
// on nodes.
//
// # Contract
//
//   - Nothing runs before it is asked for: [Rack.Start] installs the kinds and roles and
//     starts kerf-controller, [Rack.Stock] puts up the shelf, [Rack.RunDriver] runs a
//     driver; [Rack.Equip] does all that a set of manifests needs.
//   - kerf-controller has exactly the rights that deploy/controller gives it. A simulated
//     driver writes attachments as its pod on the node.
//   - The service and kerf-controller can be killed, and start again without memory but
//     for what they keep elsewhere. Devices stay where they are.
//   - It knows of the sandbox what [Cluster] has.
package rack
