// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// tainted tells of the taints that keep requests from devices. Rules may set thousands,
// for thousands of requests: what was found out is kept.
type tainted struct {
	*Options
	// apart has the taints of devices that do not say the same, see different.
	apart map[*inventory.Device][]*inventory.Taint
	texts map[taintsFor]string
	// tolerations is what requests tolerate, written down.
	tolerations map[*alloc.RequestReport]string
}

func newTainted(o *Options) tainted {
	return tainted{o, map[*inventory.Device][]*inventory.Taint{}, map[taintsFor]string{}, map[*alloc.RequestReport]string{}}
}

// untolerated returns the taints that keep the request away. Where it is not
// known what the request tolerates, those are all that keep anybody away.
func (o *Options) untolerated(r *alloc.RequestReport, d *inventory.Device) []inventory.Taint {
	var taints []inventory.Taint
	away := o.keepsAway(r, d)
	for i := range d.Taints {
		if away(&d.Taints[i]) {
			taints = append(taints, d.Taints[i])
		}
	}
	return taints
}

// keepsAway tells which of a device's taints keep the request away.
func (o *Options) keepsAway(r *alloc.RequestReport, d *inventory.Device) func(*inventory.Taint) bool {
	asked, _ := o.asked(r.Claim, r.Request)
	claim := o.claim(r.Claim)
	mine := claim != nil && claim.UID != "" && d.KeptFor(claim.UID)
	return func(taint *inventory.Taint) bool {
		if mine && (taint.Key == inventory.ArrivingTaint || taint.Key == inventory.ClaimTaint && taint.Value == string(claim.UID)) {
			return false
		}
		return inventory.KeepsAway(&taint.DeviceTaint) && !alloc.Tolerates(asked.Tolerations, &taint.DeviceTaint)
	}
}

// different are the taints of a device that do not say the same.
func (t *tainted) different(d *inventory.Device) []*inventory.Taint {
	if known, found := t.apart[d]; found {
		return known
	}
	var taints []*inventory.Taint
	known := map[resourceapi.DeviceTaint]bool{}
	for i := range d.Taints {
		if says := kindOf(d.Taints[i].DeviceTaint); !known[says] {
			known[says] = true
			taints = append(taints, &d.Taints[i])
		}
	}
	t.apart[d] = taints
	return taints
}

// taintsFor is what the text about the taints of a device depends on: whose request it
// is, and what that tolerates.
type taintsFor struct {
	device      *inventory.Device
	claim       string
	tolerations string
}

// why says once for all requests that tolerate the same what keeps them away. It
// continues "the device is".
func (t *tainted) why(r *alloc.RequestReport, d *inventory.Device) string {
	about := taintsFor{d, r.Claim, t.tolerated(r)}
	text, known := t.texts[about]
	if !known {
		text = t.text(r, d)
		t.texts[about] = text
	}
	return text
}

// tolerated writes down what a request tolerates.
func (t *tainted) tolerated(r *alloc.RequestReport) string {
	text, known := t.tolerations[r]
	if !known {
		asked, _ := t.asked(r.Claim, r.Request)
		for i := range asked.Tolerations {
			tol := &asked.Tolerations[i]
			text += fmt.Sprintf("%q %q %q %q,", tol.Key, tol.Operator, tol.Value, tol.Effect)
		}
		t.tolerations[r] = text
	}
	return text
}

func (t *tainted) text(r *alloc.RequestReport, d *inventory.Device) string {
	taints := t.untolerated(r, d)
	texts := t.taintTexts(taints, byRule)
	switch {
	case len(texts) == 0:
		return withoutNodeSupport
	case len(texts) == 1 && taints[0].Key == inventory.ClaimTaint:
		return texts[0].Text
	}
	return taintedWith(texts)
}

// taintedWith gives the taints in parentheses where some say what they reserve.
func taintedWith(taints []TaintText) string {
	texts := plain(taints)
	if slices.ContainsFunc(taints, func(t TaintText) bool { return t.Reserves }) {
		return "tainted (" + List(texts) + ")"
	}
	return "tainted " + List(texts)
}

// loss names the taints, as far as they are few.
func (t *tainted) loss(r *alloc.RequestReport) string {
	dropped := r.Dropped[alloc.StageTaints]
	var all []inventory.Taint
	known := map[resourceapi.DeviceTaint]bool{}
	for _, d := range dropped {
		away := t.keepsAway(r, d)
		for _, taint := range t.different(d) {
			if says := kindOf(taint.DeviceTaint); !known[says] && away(taint) {
				known[says] = true
				all = append(all, *taint)
			}
		}
	}
	taints := plain(t.taintTexts(all, func(taint *inventory.Taint) string { return taint.String() }))
	switch {
	case len(taints) == 1 && all[0].Key == inventory.ClaimTaint:
		return taints[0]
	case len(taints) == 0 && len(dropped) > 0:
		return withoutNodeSupport
	case len(taints) == 0:
		return losses[alloc.StageTaints]
	}
	slices.Sort(taints)
	return fmt.Sprintf("%s (%s)", losses[alloc.StageTaints], firstOf(taints, ", "))
}
