// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// stageNames are used in texts and JSON.
var stageNames = [alloc.Stages]string{
	alloc.StageDevices:     "devices",
	alloc.StageClass:       "class",
	alloc.StageSelector:    "selector",
	alloc.StageFree:        "free",
	alloc.StageTaints:      "taints",
	alloc.StageCounters:    "counters",
	alloc.StageCapacity:    "capacity",
	alloc.StageNode:        "node",
	alloc.StageConstraints: "constraints",
}

// losses says what became of devices that a stage did not let through.
var losses = [alloc.Stages]string{
	alloc.StageFree:        "in use",
	alloc.StageTaints:      "tainted",
	alloc.StageCounters:    "short of counters",
	alloc.StageCapacity:    "too small",
	alloc.StageConstraints: "kept out by constraints",
}

// shortage says why a request has too few devices.
func (t *teller) shortage(r *alloc.RequestReport) string {
	needs := "needs " + devicesWanted(r.Wants)
	if r.All {
		needs = "wants all devices that match"
	}
	class := "its class"
	if asked, ok := t.asked(r.Claim, r.Request); ok {
		class = "class " + asked.DeviceClassName
	}
	devices, ofClass, matching := r.Left[alloc.StageDevices], r.Left[alloc.StageClass], r.Left[alloc.StageSelector]
	switch {
	case !r.All && r.Wants > resourceapi.AllocationResultsMaxSize:
		return fmt.Sprintf("%s, a claim can have at most %d", needs, resourceapi.AllocationResultsMaxSize)
	case r.All && matching > resourceapi.AllocationResultsMaxSize:
		return fmt.Sprintf("%s, %d match, a claim can have at most %d", needs, matching, resourceapi.AllocationResultsMaxSize)
	case devices == 0:
		return needs + ", the node has none"
	case ofClass == 0:
		return fmt.Sprintf("%s, none of %d is of %s", needs, devices, class)
	case matching == 0:
		return fmt.Sprintf("%s, none of %d of %s matches the selectors%s", needs, ofClass, class, unmet(r, ""))
	}
	var lost []string
	for stage := alloc.StageFree; stage <= alloc.StageConstraints; stage++ {
		n := r.Left[stage-1] - r.Left[stage]
		if stage == alloc.StageCounters {
			var incompatible int
			if n, incompatible = t.splitCounters(r); incompatible > 0 {
				lost = append(lost, fmt.Sprintf("%d %s", incompatible, apart))
			}
		}
		if n > 0 {
			lost = append(lost, fmt.Sprintf("%d %s", n, t.loss(r, stage)))
		}
	}
	if len(lost) == 0 {
		return fmt.Sprintf("%s, %d %s%s", needs, matching, Verb(matching, "matches", "match"), unmet(r, "others: "))
	}
	left := r.Left[alloc.StageConstraints]
	if left == 0 {
		return fmt.Sprintf("%s, none of %d that %s is left: %s", needs, matching, Verb(matching, "matches", "match"), strings.Join(lost, ", "))
	}
	return fmt.Sprintf("%s, %d of %d that match %s left: %s", needs, left, matching, Verb(left, "is", "are"), strings.Join(lost, ", "))
}

// loss is the entry of losses, more precise where more is known.
func (t *teller) loss(r *alloc.RequestReport, stage alloc.Stage) string {
	switch stage {
	case alloc.StageTaints:
		return t.tainted.loss(r)
	case alloc.StageCapacity:
		return t.lossToSpelling(r)
	case alloc.StageNode:
		return t.lossToNode(r)
	case alloc.StageConstraints:
		return t.lossToConstraints(r)
	}
	return losses[stage]
}

// lossToNode names the resources of the node that are short, the way everything
// else that schedules does.
func (o *Options) lossToNode(r *alloc.RequestReport) string {
	var short, by []string
	for _, d := range r.Dropped[alloc.StageNode] {
		name := r.Shortages[d].Resource
		if text := insufficient(name); !slices.Contains(short, text) {
			short = append(short, text)
		}
		if whose := o.whose(name); !slices.Contains(by, whose) {
			by = append(by, whose)
		}
	}
	return fmt.Sprintf("kept out by %s (%s)", ListAnd(by), strings.Join(short, ", "))
}

func insufficient(name v1.ResourceName) string { return "Insufficient " + string(name) }

// lossToConstraints names the attribute that no candidate has, where that is
// the reason.
func (t *teller) lossToConstraints(r *alloc.RequestReport) string {
	if len(r.DerivedErrors) > 0 {
		return "without derived attribute " + string(r.DerivedErrors[0].Attribute)
	}
	asked, _ := t.asked(r.Claim, r.Request)
	for _, attribute := range t.attributesAsked() {
		derived := slices.ContainsFunc(asked.DerivedAttributes, func(d resourceapi.DeviceDerivedAttribute) bool { return d.Name == attribute })
		if !derived && !slices.ContainsFunc(r.Candidates, func(d *inventory.Device) bool { return hasAttribute(d, attribute) }) {
			return "without attribute " + string(attribute)
		}
	}
	return losses[alloc.StageConstraints]
}

// derivedError says how often and why a derived attribute cannot be worked out.
func derivedError(e *alloc.DerivedError) string {
	return fmt.Sprintf("derived attribute %s, %s, fails on %s: %s", e.Attribute, Cut(e.Expression, 60), Count(e.Devices, "device"), selectorFailure(e.Err))
}

// selectorError says how often and why a selector failed.
func selectorError(e *alloc.SelectorError) string {
	whose := "a selector"
	if e.Class != "" {
		whose = "a selector of class " + e.Class
	}
	return fmt.Sprintf("%s fails on %s: %s", whose, Count(e.Devices, "device"), selectorFailure(e.Err))
}

// selectorFailure names what a device lacks, or gives CEL's message.
func selectorFailure(err error) string {
	if missing := missingKey(err); missing != "" {
		return "no attribute or capacity " + missing
	}
	return Cut(err.Error(), 80)
}

// missingKey returns the name of the attribute or capacity whose absence is the
// cause of a selector's error, as package selector says it.
func missingKey(err error) string {
	var missing interface{ MissingKey() string }
	if errors.As(err, &missing) {
		return missing.MissingKey()
	}
	return ""
}

// funnel is "devices 8 → class 4 → free 1": the stages that stopped devices.
func funnel(steps []Step) string {
	var texts []string
	for i, s := range steps {
		if i == 0 || s.Left != steps[i-1].Left {
			texts = append(texts, fmt.Sprintf("%s %d", s.Stage, s.Left))
		}
	}
	return strings.Join(texts, " → ")
}

func stepsOf(r *alloc.RequestReport) []Step {
	var steps []Step
	for stage, left := range r.Left {
		steps = append(steps, Step{Stage: stageNames[stage], Left: left})
		if left == 0 {
			break
		}
	}
	return steps
}

// drop is a set of devices that a request lost for the same reason.
type drop struct {
	stage   alloc.Stage
	devices []*inventory.Device
	why     string
}

// drops groups the devices that a request lost, those that keep approves, by
// reason, in the order in which they fell out.
func (t *teller) drops(r *alloc.RequestReport, keep func(*inventory.Device) bool) []drop {
	var found []drop
	for stage := alloc.StageFree; stage < alloc.StageConstraints; stage++ {
		for _, d := range r.Dropped[stage] {
			if !keep(d) {
				continue
			}
			why := t.why(r, stage, d)
			i := slices.IndexFunc(found, func(known drop) bool { return known.stage == stage && known.why == why })
			if i < 0 {
				found, i = append(found, drop{stage: stage, why: why}), len(found)
			}
			found[i].devices = append(found[i].devices, d)
		}
	}
	return found
}
