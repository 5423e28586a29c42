// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/simulate"
)

// PodState is a pod: where it is and what it has, or why it waits.
type PodState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Node is set where the pod has one.
	Node   string       `json:"node,omitempty"`
	Claims []ClaimState `json:"claims,omitempty"`
	// NodeResources is what the pod's devices take of its node, by resource.
	NodeResources map[string]string `json:"nodeResources,omitempty"`
	// Scheduler is what the scheduler last said about a pod that waits.
	Scheduler string `json:"scheduler,omitempty"`
	// Obstacle is what the pod waits for before any node is looked at, or why it cannot
	// start on the node that it has.
	Obstacle string `json:"obstacle,omitempty"`
	// FitsOn are nodes that the pod could go to as things are now.
	FitsOn []string `json:"fitsOn,omitempty"`
	// Waits are the nodes that the pod cannot go to, by reason.
	Waits []Wait `json:"waits,omitempty"`
	// Notes say what limits the answer.
	Notes []string `json:"notes,omitempty"`
}

// Wait is a reason that keeps a pod from nodes.
type Wait struct {
	explain.Line
	// Refusal says more, for the first of the nodes, where devices are the
	// reason.
	Refusal *explain.Refusal `json:"refusal,omitempty"`
}

// Verdict adds where a pod that waits could go, or why it cannot, to its state.
// Remedies are looked for on one node per reason.
func (p *PodState) Verdict(v *simulate.Verdict, o explain.Options) {
	for _, f := range v.Failed {
		p.Notes = append(p.Notes, explain.Failed(f)+": its claim is allocated anew")
	}
	if blocker := v.Blocker(); blocker != nil {
		p.Obstacle = Obstacle(blocker, o)
		return
	}
	byNode := map[string]*simulate.NodeVerdict{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		byNode[n.Node.Name] = n
		if n.Fits() {
			p.FitsOn = append(p.FitsOn, n.Node.Name)
		}
	}
	for _, line := range Lines(v, o) {
		wait := Wait{Line: line}
		if n := byNode[line.Nodes[0]]; n.Outcome.Refusal != nil {
			detailed := on(o, v, n)
			detailed.Remedies = explain.Remedies(n.Outcome.Refusal, n.View, v.FitsOn)
			refusal := explain.Describe(n.Outcome.Refusal, detailed)
			wait.Refusal = &refusal
		}
		p.Waits = append(p.Waits, wait)
	}
}

// Lines say why a pod does not fit on nodes: what is to be said of several is said once.
func Lines(v *simulate.Verdict, o explain.Options) []explain.Line {
	causes := map[string]explain.Cause{}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; !n.Fits() {
			causes[n.Node.Name] = nodeCause(v, n, o)
		}
	}
	return explain.Group(causes)
}

// nodeCause says why a pod does not fit on a node.
func nodeCause(v *simulate.Verdict, n *simulate.NodeVerdict, o explain.Options) explain.Cause {
	if len(n.Misfits) == 0 {
		cause, _ := explain.OutcomeCause(n.Outcome, on(o, v, n))
		return cause
	}
	var texts []string
	for i := range n.Misfits {
		texts = append(texts, Misfit(&n.Misfits[i]))
	}
	return explain.Because(strings.Join(texts, "; "))
}

// on adds what a node knows about what was tried there.
func on(o explain.Options, v *simulate.Verdict, n *simulate.NodeVerdict) explain.Options {
	known := o.Called
	o.View, o.Claims = n.View, n.Wanted()
	o.Budget = func(name v1.ResourceName) bool { return claim.HasBudget(v.Pod, name) }
	o.Called = func(ref alloc.RequestRef) string {
		name := n.Called(ref)
		if name == "" && known != nil {
			name = known(ref)
		}
		return name
	}
	return o
}

// Misfit says why a node does not suit a pod, apart from devices.
func Misfit(m *simulate.Misfit) string {
	switch m.Kind {
	case simulate.OtherNode:
		return "spec.nodeName is another node"
	case simulate.Unschedulable:
		return "the node is cordoned"
	case simulate.NodeTaint:
		return "taint " + m.Taint.ToString() + " of the node is not tolerated"
	case simulate.NodeSelector:
		return "the pod's node selector or affinity does not match"
	case simulate.TooManyPods:
		return "the node has as many pods as it may have"
	case simulate.TooLittle:
		return fmt.Sprintf("needs %s of %s, %s left", explain.Quantity(m.Resource, m.Wants), m.Resource, explain.Quantity(m.Resource, explain.NotBelowZero(m.Free)))
	case simulate.NotServed:
		return fmt.Sprintf("needs %s of %s, which no device class serves and the node does not offer", explain.Quantity(m.Resource, m.Wants), m.Resource)
	case simulate.ClaimElsewhere:
		return "claim " + m.Claim + " is allocated for other nodes"
	case simulate.SpecialOverQuota:
		return explain.SpecialNotMade(m.Detail, true)
	case simulate.SpecialNeedless:
		return explain.SpecialNeedless(m.Claim)
	}
	return string(m.Kind)
}

// Obstacle says what a pod waits for before any node is looked at, and what helps.
func Obstacle(o *simulate.Obstacle, known explain.Options) string {
	switch o.Kind {
	case simulate.Deleted:
		return "the pod is being deleted and is not scheduled any more"
	case simulate.Gated:
		return "scheduling gate " + o.Name + " is set; its owner removes it"
	case simulate.NoClaim:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s does not exist; create it or correct resourceClaimName", o.Entry, cmp.Or(o.Name, "(none named)"))
	case simulate.NoTemplate:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaimTemplate %s does not exist; create it or correct resourceClaimTemplateName", o.Entry, o.Name)
	case simulate.OverQuota:
		return fmt.Sprintf("spec.resourceClaims %s: the claim cannot be made from ResourceClaimTemplate %s: %s; delete claims or their pods, or have the quota raised", o.Entry, o.Name, o.Detail)
	case simulate.Leaving:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s is being deleted; use another claim, or create it anew when it is gone", o.Entry, o.Name)
	case simulate.NotReservable:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s is in use by as many pods as can share it; use another claim", o.Entry, o.Name)
	case simulate.NotShareable:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s has a device that maps resources of its node, so pods cannot share it, and another pod uses it; use another claim", o.Entry, o.Name)
	case simulate.NotJoinable:
		return fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s %s", o.Entry, o.Name, explain.Untolerated(o.Tainted, known))
	case simulate.NotReady:
		return strings.TrimPrefix(fmt.Sprintf("spec.resourceClaims %s: ResourceClaim %s %s", o.Entry, o.Name, explain.NotReady(o.Binding)), "spec.resourceClaims : ")
	case simulate.BadInput:
		return explain.Input(o.Input)
	}
	return stranded(o)
}

// Text is the state of the pod for a person.
func (p *PodState) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case p.Node != "":
		line("pod %s/%s: %s on node %s", p.Namespace, p.Name, strings.ToLower(cmp.Or(p.Phase, "placed")), p.Node)
	case p.Phase != "" && p.Phase != string(v1.PodPending):
		line("pod %s/%s: %s", p.Namespace, p.Name, strings.ToLower(p.Phase))
	default:
		line("pod %s/%s: waits", p.Namespace, p.Name)
	}
	for i := range p.Claims {
		indent(&b, "  ", p.Claims[i].Text())
	}
	var takes []string
	for _, name := range slices.Sorted(maps.Keys(p.NodeResources)) {
		takes = append(takes, p.NodeResources[name]+" of "+name)
	}
	if len(takes) > 0 {
		line("  its devices take %s", explain.ListAnd(takes))
	}
	p.writeVerdict(&b)
	return b.String()
}

// writeVerdict writes why the pod waits, or where it could go.
func (p *PodState) writeVerdict(b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	if p.Scheduler != "" {
		line("  the scheduler says: %s", p.Scheduler)
	}
	if p.Obstacle != "" {
		line("  %s", p.Obstacle)
	}
	if len(p.FitsOn) > 0 {
		line("  as things are now it fits on %s", explain.List(p.FitsOn))
	}
	for _, wait := range p.Waits {
		if wait.Refusal == nil {
			line("  %s", wait.Line)
			continue
		}
		// What else is in the line has one of its own.
		line("  %s", explain.Line{Reason: wait.First(1), Nodes: wait.Nodes})
		if len(wait.Nodes) > 1 {
			line("    on %s:", wait.Nodes[0])
		}
		indent(b, "    ", wait.Refusal.Details())
	}
	for _, note := range p.Notes {
		line("  note: %s", note)
	}
}

func indent(to *strings.Builder, prefix, text string) {
	for line := range strings.Lines(text) {
		to.WriteString(prefix + line)
	}
}
