// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hollow simulates the kubelets of a cluster.
//
// Every Node object is a hollow node, whoever created it. A hollow node is
// ready, has generous resources unless its object says otherwise, and runs the
// pods that are bound to it without running anything: containers start at once,
// keep running until told otherwise and stop at once.
//
// # Contract
//
//   - A node without a Ready condition gets one, and gets the labels, capacity,
//     allocatable resources and declared features that its object lacks; see
//     [Complete]. What the object says is never changed.
//   - A pod that is bound to an existing node becomes Running when every
//     ResourceClaim that it references is allocated and reserved for it. Until
//     then it stays Pending: a kubelet would refuse to start it, too. Nothing is
//     prepared, and the status of claims is never written.
//   - A pod that is being deleted is removed when its containers have stopped.
//   - ResourceSlices are left alone. Devices that a manifest publishes stay
//     published.
//
// # Annotations
//
// Annotations on the pod steer what its containers do. They can be set when the
// pod is created or at any later time.
//
//	kerf.dev/run-for     how long the containers run, as a Go duration counted
//	                     from the start of the pod; then the pod has Succeeded.
//	                     "0s" ends a running pod now. Without it they run for ever.
//	kerf.dev/exit-code   exit code of the containers at the end of run-for; any
//	                     code other than "0" makes the pod Failed.
//	kerf.dev/stop-after  how long the containers keep running after the pod's
//	                     deletion was requested, as a Go duration; bounded by the
//	                     pod's termination grace period. Without it they stop at once.
//
// An annotation that cannot be parsed is reported as an event on the pod and
// otherwise ignored.
package hollow
