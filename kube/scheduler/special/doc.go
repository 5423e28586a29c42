// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package special serves extended resources with devices (KEP-5004). For example, a pod with
// limits "example.com/gpu: 2" gets a special claim for two devices of the class that names this
// resource.
//
// Devices serve a resource where a class names it and no device plugin of the node offers it.
// [Claims.CaseOf] says what a pod has to do with that, [Case.ServedOn] which of its resources
// devices serve on a node. The claim is held in memory until PreBind creates it
// ([Claims.Prepare]). Where the API server does not permit that, because of a quota, a policy or
// a webhook ([Denial]), the pod has a pause, which ends earlier when the quota has room again.
//
// The claim's name follows from the pod. The pod's status, which names it and cannot be taken
// back, is written last. When an attempt fails the claim is removed ([Claims.Withdraw]), and its
// devices stay taken until that is certain. A claim is a pod's special claim if its status names
// it, or if a scheduler made it, which its name tells: annotation and owner can be copied.
// [Strays] removes those of pods that were bound without them.
package special
