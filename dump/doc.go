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
//	metadata: {name: cluster}
//	namespaces: [...]              # v1
//	nodes: [...]                   # v1
//	deviceClasses: [...]           # resource.k8s.io/v1
//	resourceSlices: [...]          # resource.k8s.io/v1
//	deviceTaintRules: [...]        # resource.k8s.io/v1
//	resourceClaimTemplates: [...]  # resource.k8s.io/v1
//	resourceClaims: [...]          # resource.k8s.io/v1
//	pods: [...]                    # v1
//
// The entries are the API's objects without apiVersion and kind.
//
// # Contract
//
//   - Reading what was written gives the same dump.
//   - [Dump.Add] keeps what answers depend on and nothing else. In particular no
//     environment, command, volume or annotation of a pod, no parameters of
//     drivers and no managed fields: a dump can be shown to others. It does name
//     nodes, pods, claims and the devices that they hold.
//   - Objects are sorted by namespace and name, so equal clusters give equal
//     files.
//   - Fields and versions that are not known are errors.
package dump
