// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler is the Kerf plugin of the Kubernetes scheduling framework. It
// takes the place of the DynamicResources plugin: packages alloc and explain
// decide, this one asks them and writes down what they say.
//
// # Use
//
// [New] is a PluginFactory to be registered under [Name], for example with
// app.NewSchedulerCommand(app.WithPlugin(Name, New)). DynamicResources has to be
// disabled in the same profile; [DefaultConfiguration] does that. The plugin
// works on the framework's SharedDRAManager, so that NodeResourcesFit and
// embedders such as the Cluster Autoscaler see what it does.
//
// # Course of an attempt
//
//	PreFilter  look up the claims, compile those to be allocated, take a snapshot
//	Filter     solve them on each node; keep what was found
//	PostFilter have allocations given up that are in the way; complete the reasons of
//	           the nodes with names, as far as the pod's condition has room
//	Score      rank the nodes by the cost of what was found
//	Reserve    hold the devices in memory
//	PreBind    look at taints again, write allocation and reservation, wait for binding conditions,
//	           hand devices over that have arrived
//	Unreserve  undo Reserve and PreBind
//
// Pods of a gang are scheduled one after the other. Where devices are scarce each
// is solved together with as many of the pods that have to follow it as find no
// other node, so that it leaves them theirs.
//
// Where a gang does not fit, the conditions of its PodGroup, of the pod that failed and of
// those that fitted say how many fit at most. Those of pods that were not tried any more
// cannot. In k8s.io/kubernetes v1.37.2, pkg/scheduler, schedule_one_podgroup.go:635 ends the
// cycle at the first pod without which the gang is lost, with a status that only the plugin
// GangScheduling writes (framework/plugins/gangscheduling/gangscheduling.go:496; by
// framework/runtime/framework.go:489 there is no other PlacementFeasiblePlugin).
// schedule_one_podgroup.go:437 clones it for each pod that is left (727), before
// PodGroupPostFilter is called (456), whose reason is only added to the status of the group
// (799), and 882 writes the clone. A plugin that wrote the condition itself would be
// overwritten in each cycle, at most ten seconds later, and never rest. So these pods have
// the number in an event, DevicesUnavailable.
//
// Devices may take resources of their node, such as cpu (KEP-5517). The search gets
// what the node has left, the pod's status says what is taken, and until that has
// arrived in the scheduler's cache the plugin accounts for it, also towards pods
// without claims. API servers of Kubernetes 1.37 do not let the status say what the
// special claim takes; that the plugin accounts for as long as the pod is on its node.
//
// # Preemption
//
// Preemption sees the devices of pods that could be evicted as free. After an eviction the
// devices come back in steps, and the pod for which somebody was evicted may be tried
// between any two of them. So a device counts as about to become free if it is taken, but
// no claim and no pod on its way keeps it. A pod that would fit with such devices waits,
// and nobody is evicted for it meanwhile, on whatever node.
//
// A pod does not join a claim with a device that has a taint which its request does not
// tolerate, whoever runs with it (KEP-5055). It waits until the taint is gone; when nobody
// else uses the claim PostFilter has it given up, and it is allocated anew. Slices and
// DeviceTaintRules are looked at in PreFilter, when the pod reserves and binds, and once
// more after devices with binding conditions have become ready.
//
// # Attempts that cost much
//
// While the scheduler works for one pod, all others wait. So an attempt has a purse of
// work for all nodes together. Preemption's dry runs have a purse of their own, and the
// pods of a group share one. When a purse is empty, further nodes are not looked at.
//
// A pod for which a search gave up has a pause: a second at first, then twice as long
// each time, up to five minutes. The pause ends early if the pod's claims or classes
// change. It does not apply to a node on which pods were evicted for the pod.
//
// Queueing hints evaluate CEL for two milliseconds at most. An expression that takes
// much of that is taken to match.
//
// The metric kerf_scheduler_searches_gave_up_total counts the searches on a node that
// ended without an answer, by reason: "budget" of steps or work, "time", or
// "not_looked_at".
//
// # Rooms
//
// This package has the extension points and what an attempt consists of: searching, groups,
// preemption, hints, the words of refusals. The rooms beside it do one thing each:
//
//	podclaim    one claim of a pod, and the writes that change it
//	ledger      what is remembered of pods and claims, fed by one watch of each
//	special     extended resources: special claims, quotas, strays (KEP-5004)
//	handover    binding conditions, devices that arrive, taints and rules (KEP-5007, KEP-5055)
//	background  what is done at the API server while pods are scheduled
//
// Which of a pod's extended resources devices serve depends on the node, so the attempt has a
// way for each set of them, with a special claim that is solved together with the pod's other
// claims.
//
// # Invariants
//
//   - Claims and snapshots that an attempt has read are never changed; a claim is
//     replaced after it was written.
//   - A claim is never given up while a pod other than the one that failed has it
//     reserved.
//   - What an attempt did not do, it does not undo. If it may have bound the pod
//     without knowing, it undoes nothing.
//   - Waiting for devices is woken by events. The time limit counts from
//     status.allocation.allocationTimestamp, and conditions older than that do not
//     count.
//   - Nothing that the scheduling thread calls waits for the API server: what an attempt
//     needs done there before the next is done by workers (chores), and no attempt uses
//     a claim that they have. Unreserve has nothing to undo there before PreBind.
//   - All goroutines are those of the informers and of the framework, and workers that
//     acknowledge DeviceTaintRules, remove stray claims and do chores, the watch of
//     quotas, and timers of pauses; Close takes the event handlers back and ends them.
//     What they have to do is bounded.
package scheduler
