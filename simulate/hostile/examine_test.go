// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/lint"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/show"
	"kerf.dev/kerf/simulate"
)

// budget is what a search may cost.
const budget = 60

// matcher is one for all worlds: what it remembers must not matter.
var matcher = selector.New()

var strategies = []alloc.Strategy{alloc.BestFit, alloc.Spread, alloc.Listed}

// examination looks at one world from all sides.
type examination struct {
	*dump.Dump
	stats    map[string]int
	problems []string
}

// examine returns what is wrong with the answers about a world.
func examine(d *dump.Dump, stats map[string]int) []string {
	e := &examination{Dump: d, stats: stats}
	e.run()
	return e.problems
}

func (e *examination) fault(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

func (e *examination) run() {
	defer func() {
		if p := recover(); p != nil {
			e.fault("panic: %v\n%s", p, debug.Stack())
		}
	}()
	read := e.writeAndRead()
	findings := e.lint()
	answers := e.answers(e.Dump)
	for _, same := range []struct {
		what string
		d    *dump.Dump
	}{{"asked again", e.Dump}, {"objects the other way round", reversed(e.Dump)}, {"written and read", read}} {
		if same.d == nil {
			continue
		}
		if diff := cmp.Diff(answers, e.answers(same.d)); diff != "" {
			e.fault("answers, %s (-before +after):\n%s", same.what, diff)
		}
		if diff := cmp.Diff(findings, lint.Check(&same.d.Objects, matcher, nil)); diff != "" {
			e.fault("findings, %s (-before +after):\n%s", same.what, diff)
		}
	}
	e.place()
}

// writeAndRead writes the world as a dump and reads it, nil if that fails.
func (e *examination) writeAndRead() *dump.Dump {
	first, err := e.Marshal()
	if err != nil {
		// YAML cannot have it; the file is not written.
		named := func(o cluster.Object) bool {
			return strings.Contains(err.Error(), ": "+strings.TrimPrefix(o.GetNamespace()+"/", "/")+o.GetName()+": ")
		}
		if !slices.ContainsFunc(slices.Collect(e.All), named) {
			e.fault("dump: write: %v", err)
		}
		return nil
	}
	read, err := dump.Unmarshal(first)
	if err != nil {
		e.fault("dump: read what was written: %v", err)
		return nil
	}
	second, err := read.Marshal()
	if err != nil {
		e.fault("dump: write again: %v", err)
	} else if diff := cmp.Diff(string(first), string(second)); diff != "" {
		e.fault("dump (-written +read and written):\n%s", diff)
	}
	return read
}

// lint returns the findings, each of which names object, field, problem and fix.
func (e *examination) lint() []lint.Finding {
	all := lint.Check(&e.Objects, matcher, nil)
	for _, f := range all {
		if f.Kind == "" || f.Name == "" || f.Field == "" || f.Problem == "" || f.Fix == "" || f.Rule == "" || f.Level != lint.Error && f.Level != lint.Warning {
			e.fault("lint: a finding without %+v", f)
		}
	}
	for _, f := range lint.Misdirected(&e.Objects) {
		if !slices.Contains(all, f) {
			e.fault("lint: only among what is misdirected: %+v", f)
		}
	}
	e.stats["findings"] += min(len(all), 1)
	return all
}

// answers are what is said about every pod and claim, with each strategy.
func (e *examination) answers(d *dump.Dump) map[string]string {
	said := map[string]string{}
	fits := map[string]string{}
	for _, strategy := range strategies {
		w := &show.World{World: simulate.NewWorld(&d.Objects, simulate.Options{Matcher: matcher, Strategy: strategy, StepBudget: budget})}
		for _, pod := range d.Pods {
			name := fmt.Sprintf("%s: pod %s/%s", strategy, pod.Namespace, pod.Name)
			said[name] = e.explainPod(w, pod, name, fits)
		}
		for _, claim := range d.ResourceClaims {
			name := fmt.Sprintf("%s: claim %s/%s", strategy, claim.Namespace, claim.Name)
			wait, err := w.Claim(claim, podsOf(d))
			if err != nil {
				e.failed(name, err)
				continue
			}
			said[name] = wait.Text() + encoded(wait)
		}
	}
	return said
}

// encoded is for machines, without what depends on the order of objects.
func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// failed judges an error in place of an answer: it must name the object.
func (e *examination) failed(about string, err error) {
	e.stats["error"]++
	e.fault("%s: no answer: %v", about, err)
}

// explainPod asks about a pod, and compares simulate, alloc and explain.
func (e *examination) explainPod(w *show.World, pod *v1.Pod, name string, fits map[string]string) string {
	state, err := w.Pod(pod)
	if err != nil {
		e.failed(name, err)
		return ""
	}
	v, err := w.Try(pod)
	if err != nil {
		e.failed(name, err)
		return ""
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		e.verdict(v, n, name+" on "+n.Node.Name)
		if kind := kindOf(n); kind != gaveUp {
			of := fmt.Sprintf("%s/%s on %s", pod.Namespace, pod.Name, n.Node.Name)
			if other, known := fits[of]; known && other != kind {
				e.fault("%s: %s on %s, with another strategy %s", name, kind, n.Node.Name, other)
			}
			fits[of] = kind
		}
	}
	if pod.Spec.NodeName == "" && !claim.Ended(pod) {
		e.explained(v, &state, name)
	}
	return state.Text() + encoded(state)
}

const fit, refused, gaveUp = "fits", "does not fit", "gave up"

// kindOf is the answer of a node in one word or two.
func kindOf(n *simulate.NodeVerdict) string {
	switch {
	case n.Fits():
		return fit
	case n.Outcome.GaveUp != nil:
		return gaveUp
	}
	return refused
}

// verdict checks the answer of one node.
func (e *examination) verdict(v *simulate.Verdict, n *simulate.NodeVerdict, name string) {
	e.stats[kindOf(n)]++
	out := n.Outcome
	e.effort(out, name)
	if n.View == nil {
		return
	}
	kinds := 0
	for _, is := range []bool{out.Result != nil, out.Refusal != nil, out.GaveUp != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		e.fault("%s: %d answers at once: %+v", name, kinds, out)
	}
	if out.Result != nil {
		e.result(v, n, name)
	}
	if v.FitsOn(n.View) != (out.Result != nil) {
		e.fault("%s: %s, but asked once more not", name, kindOf(n))
	}
}

// effort bounds what one search has cost: the devices that were tried, and all work. A
// budget of few steps comes with the least work that alloc grants, and what is begun
// with the last of it may take some more.
func (e *examination) effort(out alloc.Outcome, name string) {
	const most = 6_000_000
	if out.Steps > budget || out.Work > most {
		e.fault("%s: %d steps of %d, and work of %d", name, out.Steps, budget, out.Work)
	}
}

// result checks what is to be allocated.
func (e *examination) result(v *simulate.Verdict, n *simulate.NodeVerdict, name string) {
	var containers []int
	for _, rc := range v.Pending() {
		count := 0
		for _, c := range v.Claims {
			if c.Object == rc {
				count += claim.References(v.Pod, c.Name)
			}
		}
		containers = append(containers, count)
	}
	if len(n.Wanted()) > len(containers) {
		containers = nil // those of the special claim are not known here
		for _, devices := range n.Outcome.Result.Devices {
			for _, d := range devices {
				if len(d.Spec.NodeAllocatableResources) > 0 {
					return
				}
			}
		}
	}
	classes := func(name string) *resourceapi.DeviceClass {
		i := slices.IndexFunc(e.DeviceClasses, func(c *resourceapi.DeviceClass) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		return e.DeviceClasses[i]
	}
	for _, violation := range alloc.Check(n.View, n.Wanted(), classes, matcher, containers, n.Outcome.Result.Claims) {
		e.fault("%s: the result breaks a rule: %s", name, violation)
	}
}

// explained compares what is said about a pod with the verdict on it.
func (e *examination) explained(v *simulate.Verdict, state *show.PodState, name string) {
	if (v.Blocker() != nil) != (state.Obstacle != "") {
		e.fault("%s: obstacle %+v is explained as %q", name, v.Blocker(), state.Obstacle)
	}
	if v.Blocker() != v.Obstacle {
		return // it waits on its node, of which nothing is said
	}
	waits := map[string]string{}
	for _, wait := range state.Waits {
		for _, node := range wait.Nodes {
			waits[node] += wait.Reason
		}
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		reason, waiting := waits[n.Node.Name]
		if slices.Contains(state.FitsOn, n.Node.Name) != n.Fits() || waiting == n.Fits() {
			e.fault("%s: %s on %s, explained as %q and fits on %v", name, kindOf(n), n.Node.Name, reason, state.FitsOn)
		}
		if waiting && (reason == "" || strings.Contains(reason, "gave up") != (kindOf(n) == gaveUp)) {
			e.fault("%s: %s on %s, explained as %q", name, kindOf(n), n.Node.Name, reason)
		}
	}
}

// place gives every pod that waits what it gets, one after the other.
func (e *examination) place() {
	before := violations(e.Dump)
	w := &show.World{World: simulate.NewWorld(&e.Objects, simulate.Options{Matcher: matcher, StepBudget: budget})}
	for _, pod := range podsOf(e.Dump) {
		if pod.Spec.NodeName != "" || claim.Ended(pod) {
			continue
		}
		name := fmt.Sprintf("place: pod %s/%s", pod.Namespace, pod.Name)
		v, err := w.Place(pod)
		if err != nil {
			e.failed(name, err)
			continue
		}
		if state, err := w.Placed(v); err != nil {
			e.failed(name, err)
		} else if (state.Node != "") != (v.Best != nil && v.Blocker() == nil) {
			e.fault("%s: placed on %q, verdict %+v", name, state.Node, v.Best)
		}
	}
	after := dump.New()
	after.Objects = *w.Objects()
	for _, violation := range violations(after) {
		if !slices.Contains(before, violation) {
			e.fault("place: %s", violation)
		}
	}
	again := &examination{Dump: after}
	if again.writeAndRead(); len(again.problems) > 0 {
		e.fault("place: %s", again.problems[0])
	}
	lint.Check(&after.Objects, matcher, nil)
}

// violations are the rules that allocations break.
func violations(d *dump.Dump) []string {
	var found []string
	for _, violation := range alloc.CheckCluster(d.ResourceSlices, d.ResourceClaims) {
		found = append(found, violation.String())
	}
	return found
}
