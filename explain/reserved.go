// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// The words for devices that a fabric reserves for a claim, before the claim.
const (
	keptFor    = "kept for "
	arrivesFor = "a device arrives for "
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

// reserved puts a taint that reserves the device into words.
func reserved(t *inventory.Taint, whom string) string {
	if t.Key == inventory.ArrivingTaint {
		return arrivesFor + whom
	}
	return keptFor + whom
}

// taintTexts puts taints into words, each once. Of what reserves devices for the same
// claim it names what says most: that a device is kept, not that one arrives.
func (o *Options) taintTexts(taints []inventory.Taint, ordinary func(*inventory.Taint) string) []string {
	var texts []string
	for i := range taints {
		t := &taints[i]
		text := ordinary(t)
		if whom := o.forWhom(t); whom != "" {
			if t.Key == inventory.ArrivingTaint && slices.ContainsFunc(taints, func(other inventory.Taint) bool {
				return other.Key == inventory.ClaimTaint && other.Value == t.Value
			}) {
				continue
			}
			text = reserved(t, whom)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}
