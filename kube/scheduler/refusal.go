// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// The lines that the DynamicResources plugin has for nodes without devices for
// the pod. Tools look for them; what there is to say beyond them goes into an
// event.
const (
	noDevices    = "cannot allocate all claims"
	invalidPools = "invalid resource pools were encountered"
)

// refusals says why nodes have no devices for a pod.
type refusals struct {
	handle   fwk.Handle
	hints    *hints
	compiler *podclaim.Compiler
}

// refuseDevices refuses a node without devices for the pod. Evicting pods can
// only help if they have devices, or the room on the node, that it needs.
func (rs *refusals) refuseDevices(ctx context.Context, s *cycleState, refusal *alloc.Refusal, view *inventory.View) *fwk.Status {
	logger := klog.FromContext(ctx)
	a := s.attempt
	r := rs.refused(a, refusal, view)
	if name := overBudgetOf(a, refusal); name != "" {
		r.line = overBudget(name, "requests")
		return a.refuse(logger, view, r, fwk.UnschedulableAndUnresolvable)
	}
	if !evictionMayHelp(refusal, view) {
		return a.refuse(logger, view, r, fwk.UnschedulableAndUnresolvable)
	}
	waits, err := rs.awaitsDevices(ctx, s, view)
	switch {
	case err != nil:
		return failed(logger, err)
	case waits:
		s.await()
		r.line = noDevices + ": waits for devices to be released by pods that are gone"
		return a.refuse(logger, view, r, fwk.UnschedulableAndUnresolvable)
	}
	return a.refuse(logger, view, r, fwk.Unschedulable)
}

// awaitsDevices reports whether the pod, and those that are nominated to the node, find
// devices there when what is about to become free is.
func (rs *refusals) awaitsDevices(ctx context.Context, s *cycleState, view *inventory.View) (bool, error) {
	kept, err := s.tenures()
	if err != nil {
		return false, fmt.Errorf("look for devices that are about to become free: %w", err)
	}
	freed := kept.freed(view, nil)
	if len(freed) == 0 {
		return false, nil
	}
	_, outcome, err := s.searchFor(ctx, s.purses.attempt, s.problemWith(rs.compiler), view.WhatIf(freed, nil))
	return outcome.Result != nil, err
}

// refused is a node without devices for the pod.
type refused struct {
	status *fwk.Status
	cause  explain.Cause
	// line is what the status says, whatever the cause; where it is empty that is the
	// cause, as far as there is room in the pod's condition.
	line string
}

// refused finds out why a node has no devices for the pod. Names of claims in other
// namespaces are nobody's business who reads the pod's condition.
func (rs *refusals) refused(a *attempt, refusal *alloc.Refusal, view *inventory.View) *refused {
	relevant := *refusal
	relevant.Pools = rs.relevantPools(a, refusal.Pools)
	namespace := a.claims[0].Claim.Namespace
	options := explain.Options{
		Visible: func(of string) bool { return of == namespace },
		Claims:  podclaim.SpecsOf(a.wanted),
		Called:  a.called,
		View:    view,
	}
	if a.holders != nil {
		options.Holders = func(id inventory.DeviceID) []inventory.Holder { return a.holders()[id] }
	}
	r := &refused{cause: explain.CauseOf(&relevant, options)}
	switch {
	case anyOfClass(refusal):
	case slices.ContainsFunc(relevant.Pools, func(p *inventory.Pool) bool {
		return p.Problem.Kind != inventory.Incomplete && p.Problem.Kind != inventory.Superseded
	}):
		r.line = invalidPools
	case len(relevant.Pools) == 0:
		r.line = noDevices
	}
	return r
}

// refuse refuses the node. Until all nodes are known the status says what can be said
// without names.
func (a *attempt) refuse(logger klog.Logger, view *inventory.View, r *refused, code fwk.Code) *fwk.Status {
	r.status = refuse(logger, code, cmp.Or(r.line, noDevices+": "+r.cause.Brief()))
	a.telling.Lock()
	defer a.telling.Unlock()
	if a.refused == nil {
		a.refused = map[string]*refused{}
	}
	a.refused[view.Node.Name] = r
	return r.status
}

// anyOfClass reports whether the conflict is about more than that the node has
// no device of the class.
func anyOfClass(refusal *alloc.Refusal) bool {
	if refusal.Conflict.Kind != alloc.TooFew {
		return true
	}
	return slices.ContainsFunc(refusal.Requests, func(r alloc.RequestReport) bool {
		atFault := slices.ContainsFunc(refusal.Conflict.Requests, func(ref alloc.RequestRef) bool {
			return ref.Claim == r.Claim && baseRequest(ref.Request) == baseRequest(r.Request)
		})
		return atFault && r.Left[alloc.StageClass] > 0
	})
}

func baseRequest(name string) string {
	request, _, _ := strings.Cut(name, "/")
	return request
}

// relevantPools leaves out pools whose visible devices are of no use to the pod.
// Of those without any nobody can tell.
func (rs *refusals) relevantPools(a *attempt, pools []*inventory.Pool) []*inventory.Pool {
	if len(pools) == 0 {
		return nil
	}
	var relevant []*inventory.Pool
	g, end := rs.hints.glance()
	defer end()
	for _, p := range pools {
		if len(p.Devices) == 0 || slices.ContainsFunc(p.Devices, func(d *inventory.Device) bool { return g.anyWants(a.wanted, d) }) {
			relevant = append(relevant, p)
		}
	}
	return relevant
}

// evictionMayHelp reports whether the claims might fit if devices that are taken
// were free: there are such devices, and enough that match each request. The
// simulation of preemption tells for sure.
func evictionMayHelp(refusal *alloc.Refusal, view *inventory.View) bool {
	if refusal.Conflict.Kind == alloc.TooMany || refusal.Conflict.Kind == alloc.AllUnknown {
		return false
	}
	if len(shortResources(refusal)) == 0 && !slices.ContainsFunc(view.Pools, func(pv inventory.PoolView) bool { return anyTaken(pv.Use) }) {
		return false
	}
	hope := map[alloc.RequestRef]bool{}
	for _, r := range refusal.Requests {
		ref := alloc.RequestRef{Claim: r.Claim, Request: baseRequest(r.Request)}
		hope[ref] = hope[ref] || r.All || r.Left[alloc.StageSelector] >= r.Wants
	}
	for _, hopeful := range hope {
		if !hopeful && refusal.Untold == 0 {
			return false
		}
	}
	return true
}

// shortResources are the resources of the node that are in the way.
func shortResources(refusal *alloc.Refusal) []v1.ResourceName {
	var names []v1.ResourceName
	if refusal.Conflict.Kind == alloc.NodeResource {
		names = append(names, refusal.Conflict.Shortage.Resource)
	}
	for _, r := range refusal.Requests {
		for _, d := range r.Dropped[alloc.StageNode] {
			names = append(names, r.Shortages[d].Resource)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// overBudgetOf returns a resource that is in the way because the pod does not allow
// its containers and devices more of it together.
func overBudgetOf(a *attempt, refusal *alloc.Refusal) v1.ResourceName {
	for _, name := range shortResources(refusal) {
		if claim.HasBudget(a.asks, name) {
			return name
		}
	}
	return ""
}

func anyTaken(use *inventory.PoolUse) bool {
	return len(use.Gone) > 0 || slices.ContainsFunc(use.Taken, func(o *inventory.Occupancy) bool { return o != nil })
}

// await remembers that devices are about to become free for the pod.
func (a *common) await() {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.awaits = true
}

// awaitsSome reports whether there is a node for which await was called.
func (a *common) awaitsSome() bool {
	a.telling.Lock()
	defer a.telling.Unlock()
	return a.awaits
}

const (
	// maxNote is the limit of the API for the note of an event. That of the framework is
	// the message of the pod's condition, so what is beyond it is only read by who looks
	// for it.
	maxNote = 1024
	// maxReasons is what the plugin takes of that. The rest is for the number of nodes,
	// other plugins and preemption.
	maxReasons = 860
)

// tellRefusals completes the reasons of the nodes that were refused, now that they are
// all known: with the names that they have room for, what tells most first. What they
// leave out is sent as an event.
func (rs *refusals) tellRefusals(logger klog.Logger, a *attempt, pod *v1.Pod) {
	a.telling.Lock()
	defer a.telling.Unlock()
	causes, untold := map[string]explain.Cause{}, map[string]explain.Cause{}
	var without []*refused
	for node, r := range a.refused {
		if r.line == "" {
			causes[node] = r.cause
			continue
		}
		untold[node] = r.cause
		if r.line == noDevices {
			without = append(without, r)
		}
	}
	rest := othersWithout(len(without))
	for i, shown := range explain.Within(causes, maxReasons-len(rest), len("5000 , ")+len(noDevices+": ")) {
		line := noDevices
		if shown.Text != "" {
			line += ": " + shown.Text
		}
		if i == 0 {
			// The framework sorts reasons as texts: the one that says least would be first.
			line += rest
			for _, r := range without {
				r.retell()
			}
		}
		for _, node := range shown.Nodes {
			a.refused[node].retell(line)
			if shown.Text != shown.Reason {
				untold[node] = causes[node]
			}
		}
	}
	if len(untold) > 0 {
		rs.reportUntold(logger, pod, explain.Within(untold, maxNote, len("5000 , ")+len(noDevices+": ")))
	}
}

// retell replaces the reasons of a node. The framework has the status already, and reads it
// when PostFilter is over.
func (r *refused) retell(reasons ...string) {
	*r.status = *fwk.NewStatus(r.status.Code(), reasons...).WithPlugin(r.status.Plugin())
}

// othersWithout counts, within the reason of other nodes, those that have no device of the
// class of a request that is in the way; empty for none.
func othersWithout(nodes int) string {
	switch nodes {
	case 0:
		return ""
	case 1:
		return "; 1 other node has no device of a class that is asked for"
	}
	return fmt.Sprintf("; %d other nodes have no device of a class that is asked for", nodes)
}

// reportUntold sends what the reasons of the nodes leave out as an event.
func (rs *refusals) reportUntold(logger klog.Logger, pod *v1.Pod, lines []explain.Shown) {
	var texts []string
	for _, line := range lines {
		if line.Text != "" {
			texts = append(texts, fmt.Sprintf("%d %s: %s", len(line.Nodes), noDevices, line.Text))
		}
	}
	note := strings.Join(texts, ", ")
	rs.handle.EventRecorder().WithLogger(logger).Eventf(pod, nil, v1.EventTypeWarning, "DevicesUnavailable", "Scheduling", "%s", note)
}
