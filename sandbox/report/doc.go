// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report says where the pods of a cluster run and with which devices,
// and why the others do not.
//
// # Schema
//
// As JSON or YAML a report is one object. Fields are only ever added. All lists
// are sorted by namespace and name.
//
//	apiVersion: kerf.dev/v1alpha1
//	kind: SandboxReport
//	summary:
//	  placed: 2              # pods on a node, finished ones too
//	  pending: 1             # pods without a node
//	pods:
//	- namespace: default
//	  name: train-0
//	  phase: Running         # status.phase of the pod
//	  node: node-1           # "" for a pending pod
//	  claims:
//	  - name: gpu            # the pod's name for it; "" for its extended resources
//	    resourceClaim: train-0-gpu-x7x9q
//	    devices:             # empty while the claim is not allocated
//	    - request: gpu       # REQUEST, or REQUEST/SUBREQUEST of a prioritized list
//	      resource: example.com/gpu # of a device for extended resources, and the
//	      containers: [main] # containers that use it; the table has no request then
//	      driver: gpu.example.com
//	      pool: node-1
//	      device: gpu-0
//	      shareID: ...       # of a device that is shared by claims
//	      adminAccess: true  # for a device that is only looked at
//	      consumedCapacity: {memory: 4Gi}
//	  pending:               # for a pending pod only
//	    reason: Unschedulable
//	    message: ...         # for a person
//	    warnings:            # events about the pod that say more
//	    - "DevicesUnavailable: ..."
//	unusablePools:           # pools from which nothing can be allocated, and why
//	- "pool gpu.example.com/node-1: 1 of 2 slices of generation 3 published (slice node-1-x7k2q)"
//	notes:                   # what is likely to be missing
//	- "the shelf is not offered: no Fabric describes it"
//	unfinished:              # changes that did not come, or not in time
//	- object: replicasets/web-5d8f in namespace default
//	  what: "has 0 of 1 pods: ... exceeded quota ..."
//	violations:              # allocations that break a rule; a bug if there are any
//	- object: pool gpu.example.com/node-1
//	  field: spec.devices[gpu-0]
//	  problem: ...
//	stats:                   # with --stats
//	  secondsToReady: 3.1
//	  secondsToFirstPodBound: 3.4
//	  secondsTotal: 5.2
//	  maxResidentBytes: 398458880
package report
