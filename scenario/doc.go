// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario is a language for stories about devices: what there is, who
// asks, who gets what and why somebody does not. A story is a txtar archive. Its
// script reads from top to bottom; YAML files that it needs follow it.
//
//	# A GPU and a NIC of the same PCIe root.
//	#
//	# Source: KEP-4381.
//
//	class gpu of gpu.example.com
//	class nic of nic.example.com
//	node n1
//	pool gpus of gpu.example.com on n1
//	  device gpu0 resource.kubernetes.io/pcieRoot=A
//	  device gpu1 resource.kubernetes.io/pcieRoot=B
//	pool nics of nic.example.com on n1
//	  device nic0 resource.kubernetes.io/pcieRoot=B
//
//	pod aligned
//	  gpu: 1 of gpu
//	  nic: 1 of nic
//	  match resource.kubernetes.io/pcieRoot
//	expect pod aligned on n1 with gpus/gpu1 nics/nic0
//
// The same story is told on two backends: core is packages alloc and simulate, without
// an API server, in milliseconds (package scenario/core); sandbox is a real API server and
// kerf-scheduler (package sandbox/story).
//
// # Form
//
// A story begins with a comment that says what it shows and has a line
// "# Source: ..." (a KEP section, a bug class, a paragraph of the design).
//
// A line that begins in the first column is a verb. Indented lines below it are
// its body. Lines that begin with "| " are the output that is expected of it; the
// flag -update of the tests writes them. Words are separated by white space;
// single quotes keep white space together and keep words from being keywords, two
// of them in a row within quotes are one. # begins a comment.
//
// A verb with [core] or [sandbox] before it is for that backend alone. A story
// that makes sense on one only has as its first verb
//
//	only core|sandbox because REASON
//
// Intervals: gpu-0..3 is gpu-0 gpu-1 gpu-2 gpu-3, in names as well as in the keys
// of KEY=VALUE. Loops: a line that ends with
//
//	for NAME in VALUE... [and NAME in VALUE...]
//
// is repeated for every combination of values, the last name changing fastest;
// $NAME or ${NAME} stands for the value. On a verb's line the body is repeated
// with it.
//
// Names: a device is POOL/DEVICE. Namespaced objects are in the namespace default;
// others are NAMESPACE/NAME. A claim that was made from a template is POD:NAME,
// with the pod's name for it; the one for a pod's extended resources is
// POD:extended-resources.
//
// # Verbs that change the world
//
//	node NAME... [LABEL=VALUE]... [offers RESOURCE=AMOUNT...]
//	class NAME [of DRIVER] [where CEL]... [serves RESOURCE] [config DRIVER KEY=VALUE...]...
//	pool NAME of DRIVER REACH [generation N]
//	slice NAME of DRIVER [pool NAME] REACH [generation N] [slices N]
//	taint NAME KEY[=VALUE]:EFFECT [driver NAME] [pool NAME] [device NAME]
//	claim NAME
//	template NAME
//	pod NAME [claim NAME...] [template NAME...] [asks RESOURCE=AMOUNT...] [on NODE...]
//	apply FILE...
//	delete KIND NAME...
//	finish POD...
//	condition CLAIM [REQUEST=]POOL/DEVICE TYPE=STATUS [outdated]
//	annotate CLAIM KEY=VALUE...
//	settle
//
// REACH says which nodes can use the devices: on NODE..., on LABEL=VALUE...,
// everywhere, or per-device where each device says so itself.
//
// "pool" publishes a complete pool in as few slices as the API allows, in a new
// generation, and deletes the slices that are not part of it any more. "slice"
// publishes one slice, whatever that makes of its pool. The body of both is
//
//	counters SET NAME=AMOUNT...
//	device NAME... [ATTRIBUTE=VALUE]... [CLAUSE]...
//
// An attribute is an integer, true, false, version:1.2.3, a list [1,2] or else a
// string; quotes make a string. The clauses of a device are
//
//	capacity NAME=AMOUNT...
//	uses SET COUNTER=AMOUNT... [groups GROUP...]    consumesCounters
//	taint KEY[=VALUE]:EFFECT
//	on NODE...|on LABEL=VALUE..., everywhere        for per-device node selection
//	shared                                          allowMultipleAllocations
//	binds                                           bindsToNode
//	until CONDITION...                              bindingConditions
//	unless CONDITION...                             bindingFailureConditions
//
// "offers" is what device plugins offer on a node, and "asks" what the pod's container
// requests beside its claims. "node" for one that is there replaces its labels and adds
// to what it offers: a plugin has come, or, with the AMOUNT 0, has gone. A class that
// "serves" an extended resource has the devices for it where no plugin offers it. Of two
// classes for one resource the later in the story is the newer; one that was there before
// and is only changed does not become newer.
//
// "taint" adds a DeviceTaintRule. The body of "claim" and "template" is
//
//	NAME: COUNT|all of CLASS [CLAUSE]...
//	NAME: first of
//	  NAME: COUNT|all of CLASS [CLAUSE]...          the alternatives, by rank
//	match ATTRIBUTE [of REQUEST...]
//	distinct ATTRIBUTE [of REQUEST...]
//	config DRIVER KEY=VALUE... [of REQUEST...]
//
// and the clauses of a request are
//
//	where CEL
//	capacity NAME=AMOUNT...
//	tolerates KEY[=VALUE][:EFFECT]                  * as KEY tolerates all
//	derives ATTRIBUTE CEL
//	admin
//
// A body of "pod" is that of a claim of the pod's own, with the pod's name, which
// is deleted with it. "apply" creates or updates the objects of YAML files; what
// the words cannot say can be said there. "delete" knows the kinds namespace,
// node, slice, class, taint, claim, template and pod, and "pool" for all slices of
// one. "condition" plays the driver that reports on a device, of several shares on that of
// a request; what it says outdated is older than the allocation. "annotate" plays somebody
// whose change of a claim means nothing but that it is another version. Every verb that
// looks waits until nothing moves; "settle" does only that. It belongs between two
// pods whose order matters, above all if their claims come from templates: claims
// are made in no particular order.
//
// # Verbs that look
//
//	expect pod POD... [on NODE...] [with DEVICE...|with N devices] [holding DEVICE...]
//	expect pending POD... ['TEXT']...
//	expect why POD 'TEXT'...
//	expect claim CLAIM... [with DEVICE...] [usable NODE...|any] [used POD...]
//	expect free DEVICE...
//	expect taken DEVICE...
//	expect gone pod|claim NAME...
//	expect held VERB RESOURCE                       sandbox: see "hold"
//	expect seen                                     sandbox: by the scheduler, all there is
//	expect dated CLAIM...                           allocationTimestamp is set
//	expect effort POD <= STEPS                      core: devices tried at most
//	expect gave-up POD...                           core: the step budget ended
//	await EXPECTATION                               as soon as it is met
//	check
//
// "on" names nodes one of which it must be; "with", "usable" and "used" name the
// whole set in any order, or nothing. The texts of "pending" are parts of what the
// scheduler says, those of "why" of what "kerf explain" says: that is more, for
// example what would help, and the same on all backends. "await" looks while things move, and waits: for what
// takes its time, such as the end of an idle time, for what is only there for a moment, and
// where something never settles, such as a pod that cannot start. On core, where no time
// passes, it is "expect". "check" verifies everything with alloc's checker.
//
// Some print a table, or a text, that is part of the story:
//
//	pods                 where the pods are, with which devices
//	claims               what each request got, where it is usable, and by whom
//	config CLAIM         the configuration in an allocation
//	pools                pools, and why one offers nothing
//	counters [POOL...]   what is left of shared counters
//	                     (closed where a device in use is not published any more)
//	why POD              what "kerf explain" says about the pod
//
// # Verbs for one backend
//
//	budget STEPS                     core: step budget, 0 is the default
//	strategy BestFit|Spread|Listed   core
//	kill scheduler|controller|redfish|driver NODE...        sandbox: as a crash does
//	start scheduler|controller|redfish|driver NODE...       sandbox: without memory
//	restart scheduler|controller|redfish|driver NODE...     sandbox: kill and start
//	disconnect scheduler|controller                         sandbox: from the API server
//	reconnect scheduler|controller                          sandbox
//	hold scheduler|controller|kube-controller-manager VERB RESOURCE [once done] [saying TEXT...]  sandbox
//	release VERB RESOURCE [with timeout|twice]                                                    sandbox
//
// "hold" has the next such request of a part wait at the API server, before it is
// carried out or once that is done: "create pods/binding", with the words of RBAC.
// Texts that it is saying are parts of its body. "await held" waits until it has come;
// while it is held the story changes what it likes. "release" lets it go on, answers
// that time is up, or has it carried out twice, as a network does that repeats it. A
// request whose sender is killed or cut off meanwhile is never carried out. A watch
// that is held keeps back what it should tell, so that the part knows nothing of it;
// "await held watch RESOURCE" waits until there is something. "await seen" waits until
// the scheduler knows all that the story has changed, and has dealt with it, but for what
// a held watch keeps back. What is held does not settle, so
// use "await" until it is released. The API server gives up on a request after a minute.
// It is an error if a story ends before a hold has found something and was released.
//
// "pod" waits until the scheduler has seen what the story changed before, but not for
// what it cannot see because it is killed, cut off, or a watch is held.
//
// # Fabrics
//
// In a sandbox, devices can be attached to nodes on demand: by kerf-controller through
// a simulated Redfish service, see docs/fabric.md and docs/redfish.md.
//
//	shelf HOST... [CLAUSE]...
//	fabric NAME of DRIVER [CLAUSE]...
//	driver NAME on NODE... [notices TIME]
//	show DEVICE... [ATTRIBUTE=VALUE]... [CLAUSE]... [without NAME...]
//	fault KIND|none [DEVICE] [CLAUSE]...
//	attachments
//
// "shelf" puts up a shelf of devices and the service that attaches them. Each host is
// the node of the same name. Its clauses, and its body, are
//
//	attach TIME, detach TIME         what these take
//	appear TIME                      how long after an attach the host sees the device
//	operations N, per-host N         how many of these the service bears at once
//
//	device NAME... [model MODEL] [memory AMOUNT] [zone ZONE] [at HOST]
//	zone NAME HOST...                without any, all devices can go to all hosts
//
// "fabric" creates a Fabric for the shelf, or changes it. The driver is simulated on
// all hosts. Clauses:
//
//	models MODEL...                  those that it offers; without, all
//	mode Reallocate|Reschedule|Resolve
//	guards GUARD...|none             DeviceTaintRule, Taint, Reservation
//	timeout TIME                     attachTimeout
//	idle TIME|never                  idleDetachAfter, keepIdle
//	operations N, per-node N         concurrency
//	templates                        a count of devices without identity
//
// "driver" says how long after a change the driver notices, and in its body which
// devices the nodes always had, in lines like those of a shelf. "show" has the drivers
// publish a device of the shelf, once it is at a node, otherwise than the fabric expects:
// with other attributes or clauses of a device than it would have, without some, and with
// counter sets, which are in the body in lines like those of a pool. Without any of that
// it is published as it is, again. "fault" has the next
// matching call of the service go wrong: docs/redfish.md has the kinds. Clauses are on
// OPERATION (attach, detach, read, poll, ...), at HOST, to HOST, after TIME, nth N and
// times N. "attachments" prints the attachments.
//
//	expect attachment CLAIM|DEVICE PHASE|none [DEVICE...]
//	expect host HOST sees DEVICE...|nothing
//	expect shelf DEVICE...|nothing
//	expect offered DEVICE...|N devices|nothing
//	expect model FABRIC/MODEL DEVICE...|nothing ['TEXT']...
//
// The devices of a shelf have the shelf's names here. "attachment" is about all
// attachments for a claim, or that of a device, and the devices that they are of;
// "shelf" about what is attached nowhere; "offered" about what the fabric publishes;
// "model" about what it does not offer as it was not what the model promises, and about
// what it says of that.
// In "expect pod", "holding" is like "with", with the shelf's names for devices that
// have arrived at the node, whatever their driver calls them.
//
// # Invariants
//
// An expectation that is not met does not end a story, anything else that goes
// wrong does. Failures name file, line and verb. The package is pure: files are
// read and written by whoever runs a story.
package scenario
