// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump is the file format for everything that decides about devices in a
// cluster, at one moment: enough to explain, lint and simulate without it.
//
// # Format
//
// A dump is one YAML or JSON document:
//
//	apiVersion: kerf.dev/v1alpha1
//	kind: Dump
//	metadata: {name: cluster, sealed: true}
//	missing: [...]                 # see Gap; only where something is
//	namespaces: [...]              # v1
//	nodes: [...]                   # v1
//	deviceClasses: [...]           # resource.k8s.io/v1
//	resourceSlices: [...]          # resource.k8s.io/v1
//	deviceTaintRules: [...]        # resource.k8s.io/v1
//	resourceQuotas: [...]          # v1
//	resourceClaimTemplates: [...]  # resource.k8s.io/v1
//	resourceClaims: [...]          # resource.k8s.io/v1
//	pods: [...]                    # v1
//	compoundPolicies: [...]        # compound.kerf.dev/v1alpha1
//	end: true
//
// The entries are the API's objects without apiVersion and kind.
//
// A file that is cut off would often still be YAML, and answers from it wrong. So
// what [Dump.Marshal] writes is sealed: its metadata come first and announce that
// the last line is "end: true". Without that line it is refused, with the message
// [CutOffProblem]. Files that are not sealed, such as those written by hand or by
// earlier versions, need no end.
//
// # Contract
//
//   - Reading what was written gives the same dump.
//   - [Dump.Add] and [Dump.Marshal] keep what answers depend on and nothing else. In
//     particular no environment, command, volume or annotation of a pod, no
//     parameters of drivers and no managed fields: a file can be shown to others,
//     whatever its objects were made from. It does name nodes, pods, claims and the
//     devices that they hold.
//   - What could not be listed is in the dump as a [Gap], so that readers neither
//     take it for absent nor give answers that need it.
//   - Objects are sorted by namespace and name, so equal clusters give equal
//     files.
//   - Fields and versions that are not known are errors.
package dump
