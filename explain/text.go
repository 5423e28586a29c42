// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Listed is how many entries a list shows before it is cut.
const Listed = 4

// List joins the first entries with commas; the rest is counted.
func List(entries []string) string {
	if len(entries) <= Listed+1 { // "and 1 more" is no shorter than the one
		return strings.Join(entries, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(entries[:Listed], ", "), len(entries)-Listed)
}

// ListAnd is list with "and" before the last entry.
func ListAnd(entries []string) string {
	if n := len(entries); n > 1 && n <= Listed+1 {
		return strings.Join(entries[:n-1], ", ") + " and " + entries[n-1]
	}
	return List(entries)
}

// Count is "1 device", "2 devices".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// devicesWanted is count of devices, for numbers that are not counted to the end.
func devicesWanted(n int) string { return wanted(n) + Verb(n, " device", " devices") }

// wanted is a number of devices that is wanted, see [simulate.ManyDevices].
func wanted(n int) string {
	if int64(n) >= claim.ManyDevices {
		return fmt.Sprintf("at least %d", int64(claim.ManyDevices))
	}
	return fmt.Sprint(n)
}

// Verb picks the form that goes with the number.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Cut shortens a text to one line of at most that many bytes, without what is not printed.
func Cut(text string, most int) string {
	text, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > most {
		text, more = strings.ToValidUTF8(text[:most], ""), true
	}
	text = Escaped(text, unicode.IsPrint)
	if more {
		text += "…"
	}
	return text
}

// Amount writes quantities the way people do: 40Gi, not 42949672960, and 40G, not
// 39062500Ki.
func Amount(a inventory.Amount) string {
	q := a.Quantity()
	v := resource.NewQuantity(q.Value(), resource.DecimalSI)
	if inventory.AmountOf(*v) != a { // a fraction, or no int64
		return inventory.QuantityText(q)
	}
	if binary := resource.NewQuantity(v.Value(), resource.BinarySI).String(); v.Value()%1024 == 0 && len(binary) <= len(v.String()) {
		return binary
	}
	return v.String()
}

// Quantity is an amount of a node resource. It writes memory in binary units where it is a whole number of MiB.
func Quantity(name v1.ResourceName, a inventory.Amount) string {
	if name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
		return inventory.QuantityText(a.Quantity())
	}
	return Amount(a)
}

// NotBelowZero is what is left: nothing, too, where more is taken than there is.
func NotBelowZero(a inventory.Amount) inventory.Amount {
	if a.Sign() < 0 {
		return inventory.Amount{}
	}
	return a
}

// short leaves out the domain of a qualified name.
func short(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[i+1:]
	}
	return name
}

func deviceNames(devices []*inventory.Device) []string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.ID.Device
	}
	return names
}
