// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Refusal is why claims cannot be allocated on a node, for people and, as JSON,
// for programs.
type Refusal struct {
	// Reason is the line that [Reason] gives.
	Reason string `json:"reason"`
	// Conflict is the part of it that is the proof.
	Conflict string    `json:"conflict"`
	Requests []Request `json:"requests"`
	// Untold is the number of requests and alternatives besides: there are so many that
	// not all were looked at for the explanation.
	Untold int `json:"untold,omitempty"`
	// Pools that the node reaches but that offer nothing, and those with devices at
	// fault that others publish under the same name.
	Pools []string `json:"pools,omitempty"`
	// NearMisses are devices that almost match.
	NearMisses []string `json:"nearMisses,omitempty"`
	// FitsIf are changes after which the claims would fit.
	FitsIf []string `json:"fitsIf,omitempty"`
}

// Request is the funnel of one request, or of one alternative of it.
type Request struct {
	Claim   string `json:"claim"` // namespace/name
	Request string `json:"request"`
	// For says what the devices are for, where the name does not.
	For string `json:"for,omitempty"`
	// Wants is the number of devices asked for, with All of those that match. That of an
	// extended resource is counted up to simulate.ManyDevices.
	Wants int  `json:"wants"`
	All   bool `json:"all,omitempty"`
	// Funnel ends with the first stage that lets no device through.
	Funnel []Step `json:"funnel"`
	// Failed is the first stage that leaves fewer devices than are wanted.
	Failed         string    `json:"failed,omitempty"`
	Dropped        []Dropped `json:"dropped,omitempty"`
	SelectorErrors []string  `json:"selectorErrors,omitempty"`
	DerivedErrors  []string  `json:"derivedErrors,omitempty"`

	label string
}

// Step is the number of devices left after a stage.
type Step struct {
	Stage string `json:"stage"`
	Left  int    `json:"left"`
}

// Dropped are devices that a request lost for one reason. Devices are given as
// driver/pool/device.
type Dropped struct {
	Stage   string   `json:"stage"`
	Devices []string `json:"devices"`
	Why     string   `json:"why"`

	names []string
}

// Describe explains a refusal in full.
func Describe(r *alloc.Refusal, o Options) Refusal {
	t := newTeller(r, o)
	text := Refusal{Reason: t.cause().String(), Conflict: t.conflict(), Untold: r.Untold, NearMisses: t.nearMisses(false)}
	for i := range r.Requests {
		text.Requests = append(text.Requests, t.request(&r.Requests[i]))
	}
	for _, p := range r.Pools {
		text.Pools = append(text.Pools, Pool(p))
	}
	text.Pools = append(text.Pools, t.rivals()...)
	for i := range t.Remedies {
		text.FitsIf = append(text.FitsIf, t.remedy(&t.Remedies[i]))
	}
	return text
}

func (t *teller) request(r *alloc.RequestReport) Request {
	req := Request{Claim: r.Claim, Request: r.Request, For: t.called(r.RequestRef), Wants: r.Wants, All: r.All, Funnel: stepsOf(r), label: t.label(r.RequestRef)}
	if r.Failed != alloc.NoStage {
		req.Failed = stageNames[r.Failed]
	}
	for _, d := range t.drops(r, func(*inventory.Device) bool { return true }) {
		dropped := Dropped{Stage: stageNames[d.stage], Why: d.why, names: deviceNames(d.devices)}
		for _, device := range d.devices {
			dropped.Devices = append(dropped.Devices, device.ID.String())
		}
		req.Dropped = append(req.Dropped, dropped)
	}
	for i := range r.SelectorErrors {
		e := &r.SelectorErrors[i]
		req.SelectorErrors = append(req.SelectorErrors, fmt.Sprintf("%s (as on %s)", selectorError(e), e.Device))
	}
	for i := range r.DerivedErrors {
		e := &r.DerivedErrors[i]
		req.DerivedErrors = append(req.DerivedErrors, fmt.Sprintf("%s (as on %s)", derivedError(e), e.Device))
	}
	return req
}

// Details is the text of [Describe].
func Details(r *alloc.Refusal, o Options) string { return Describe(r, o).Text() }

// Text is the conflict, then indented what is known about each request and what
// would help, a line each.
func (r Refusal) Text() string {
	return r.Conflict + "\n" + r.Details()
}

// Details is the text without the conflict.
func (r Refusal) Details() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, req := range r.Requests {
		wants := "needs " + wanted(req.Wants)
		if req.All {
			wants = "wants all"
		}
		line("  %s %s: %s", req.label, wants, funnel(req.Funnel))
		for _, d := range req.Dropped {
			line("    %s %s %s", List(d.names), Verb(len(d.names), "is", "are"), d.Why)
		}
		for _, e := range slices.Concat(req.SelectorErrors, req.DerivedErrors) {
			line("    %s", e)
		}
	}
	if r.Untold > 0 {
		line("  and %d more of the requests and alternatives, which were not looked at", r.Untold)
	}
	for _, p := range r.Pools {
		line("  %s", p)
	}
	for _, m := range r.NearMisses {
		line("  near miss: %s", m)
	}
	for _, f := range r.FitsIf {
		line("  would fit if %s", f)
	}
	return b.String()
}
