// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a Kubernetes cluster inside the process: etcd,
// kube-apiserver, the controllers of kube-controller-manager that claims and
// workloads need, kube-scheduler with kerf in it, and simulated nodes.
//
// The parts are those of Kubernetes, so validation, watches, garbage collection
// and scheduling are the real thing. Only the nodes are simulated, see package
// hollow: pods start without images, and devices exist because a ResourceSlice
// says so.
//
// # Contract
//
//   - One sandbox at a time and one in the life of a process: feature gates,
//     metrics and informer names of Kubernetes are global.
//   - All feature gates of dynamic resource allocation and of workload scheduling
//     are on, and all versions of their APIs are served; see FeatureGates.
//   - The API server listens on a free port of the loopback interface with TLS and
//     knows only users with a certificate of the sandbox; there is no anonymous
//     access. The scheduler has exactly the rights that RBAC gives to
//     system:kube-scheduler and those of deploy/scheduler. etcd has no network port. Controllers and scheduler
//     listen nowhere.
//   - Everything on disk is in one directory, mode 0700, that goes with the
//     sandbox.
//   - Parts start in the order of [Sandbox.Parts] and stop in reverse: etcd last. When
//     Stop has returned, all ports are closed, and every goroutine has ended but two kinds that Kubernetes cannot
//     stop: one that watches over logging for the life of a process, and timers
//     of at most three seconds in the API server's watch cache.
//   - What a fabric needs is started when it is asked for, see package rack: a Redfish
//     service with a simulated shelf on a loopback port, kerf-controller, and drivers that publish
//     what arrives on nodes. kerf-controller has exactly the rights that
//     deploy/controller gives it.
//     The admission policies of deploy/controller are in force; a simulated driver writes
//     attachments as its pod on the node.
//   - Parts can be killed and cut off, see package part. Requests of the scheduler,
//     kerf-controller and the controllers can be held inside of the API server, at the
//     last moment before they are carried out or the first after it; see [Holds]. Nothing
//     is held unless it is asked for.
//   - A part that ends by itself ends the sandbox, and Stop says why.
//
// Settle is how to wait: it returns when nothing moves any more.
package sandbox
