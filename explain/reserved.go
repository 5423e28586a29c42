// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// forWhom says for which claim a taint reserves the device, empty for a taint that
// does not. A UID tells somebody who must not know the claim at least which devices
// are for the same one.
func (o *Options) forWhom(t *inventory.Taint) string {
	if !t.Reserves() {
		return ""
	}
	if o.Claimant != nil {
		if h, known := o.Claimant(types.UID(t.Value)); known && (o.Visible == nil || o.Visible(h.Namespace)) {
			return "claim " + h.String()
		}
	}
	return "another claim (" + t.Value + ")"
}

// Reserved says for which claim a taint reserves its device, empty for a taint that does
// not.
func (o *Options) Reserved(t *inventory.Taint) string {
	whom := o.forWhom(t)
	switch {
	case whom == "":
		return ""
	case t.Key == inventory.ArrivingTaint:
		return "a device arrives for " + whom
	}
	return "kept for " + whom
}

// TaintText is a taint in words.
type TaintText struct {
	Text string
	// Reserves is set where the text says for which claim the device is reserved.
	Reserves bool
}

// taintTexts puts taints into words, each once. What of them reserves devices for a claim
// is told by [Options.Reserved], the others in the words of ordinary.
func (o *Options) taintTexts(taints []inventory.Taint, ordinary func(*inventory.Taint) string) []TaintText {
	var texts []TaintText
	for i := range taints {
		t := &taints[i]
		if Redundant(t, taints) {
			continue
		}
		text := TaintText{Text: o.Reserved(t), Reserves: true}
		if text.Text == "" {
			text = TaintText{Text: ordinary(t)}
		}
		if !slices.ContainsFunc(texts, func(other TaintText) bool { return other.Text == text.Text }) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Redundant reports whether a taint says less than another does: that a device arrives
// for a claim, where one is kept for it already.
func Redundant(t *inventory.Taint, among []inventory.Taint) bool {
	return t.Key == inventory.ArrivingTaint && slices.ContainsFunc(among, func(other inventory.Taint) bool {
		return other.Key == inventory.ClaimTaint && other.Value == t.Value
	})
}

func plain(taints []TaintText) []string {
	texts := make([]string, len(taints))
	for i, t := range taints {
		texts[i] = t.Text
	}
	return texts
}
