// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/claim"
)

// Formats are the names that Print knows; the first one is for a person.
var Formats = []string{"table", "json", "yaml"}

// Print writes the report in one of the Formats.
func (r *Report) Print(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.printTable(w)
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "yaml":
		data, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return fmt.Errorf("output format %q is not one of %s", format, strings.Join(Formats, ", "))
}

func (r *Report) printTable(w io.Writer) error {
	var text strings.Builder
	r.placed(&text)
	r.pending(&text)
	section(&text, "Nothing can be allocated from", r.UnusablePools)
	section(&text, "Unfinished", r.Unfinished)
	section(&text, "Allocations that break a rule", r.Violations)
	for _, note := range r.Notes {
		fmt.Fprintf(&text, "note: %s\n", note)
	}
	fmt.Fprintf(&text, "%d placed, %d pending\n", r.Summary.Placed, r.Summary.Pending)
	r.stats(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

// section is a title and a line for each item, nothing if there is none.
func section[T any](text *strings.Builder, title string, items []T) {
	if len(items) == 0 {
		return
	}
	text.WriteString(title + ":\n")
	for _, item := range items {
		fmt.Fprintf(text, "  %v\n", item)
	}
	text.WriteString("\n")
}

// placed is a table with a line for each device of each pod on a node.
func (r *Report) placed(text *strings.Builder) {
	if r.Summary.Placed == 0 {
		return
	}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	// Writing to memory cannot fail.
	row := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) }
	row("NAMESPACE", "POD", "STATUS", "NODE", "CLAIM", "REQUEST", "DEVICE")
	for _, pod := range r.Pods {
		if pod.Node == "" {
			continue
		}
		lead := []string{pod.Namespace, pod.Name, string(pod.Phase), pod.Node}
		lines := pod.deviceLines()
		if len(lines) == 0 {
			row(append(lead, "", "", "")...)
		}
		for _, line := range lines {
			row(append(lead, line...)...)
			lead = []string{"", "", "", ""}
		}
	}
	_ = table.Flush()
	lines := strings.Split(text.String(), "\n")
	text.Reset()
	for _, line := range lines {
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// deviceLines are the last three columns: claim, request and device.
func (p *Pod) deviceLines() [][]string {
	var lines [][]string
	for _, claim := range p.Claims {
		name := claim.Name
		if name == "" {
			name = "(extended resources)"
		}
		if len(claim.Devices) == 0 {
			lines = append(lines, []string{name, "", "(not allocated)"})
		}
		for i, device := range claim.Devices {
			if i > 0 {
				name = ""
			}
			lines = append(lines, []string{name, device.request(), device.String()})
		}
	}
	return lines
}

// request is what the device is for. The name of a request for extended resources is
// made up by the scheduler and tells nobody.
func (d Device) request() string {
	return cmp.Or(claim.Purpose{Resource: d.Resource, Containers: d.Containers}.String(), d.Request)
}

// String is driver/pool/device and what is special about the allocation.
func (d Device) String() string {
	text := d.Driver + "/" + d.Pool + "/" + d.Device
	if len(d.ConsumedCapacity) > 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(d.ConsumedCapacity)) {
			parts = append(parts, name+"="+d.ConsumedCapacity[name])
		}
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	if d.AdminAccess {
		text += " (admin access)"
	}
	return text
}

// pending says for each pod without a node why.
func (r *Report) pending(text *strings.Builder) {
	if r.Summary.Pending == 0 {
		return
	}
	text.WriteString("Pending:\n")
	for _, pod := range r.Pods {
		if pod.Node != "" {
			continue
		}
		fmt.Fprintf(text, "  %s/%s", pod.Namespace, pod.Name)
		if pod.Pending == nil {
			fmt.Fprintf(text, ": %s before it had a node\n", pod.Phase)
			continue
		}
		fmt.Fprintf(text, " (%s):\n", pod.Pending.Reason)
		for _, paragraph := range append([]string{pod.Pending.Message}, pod.Pending.Warnings...) {
			for line := range strings.Lines(paragraph) {
				fmt.Fprintf(text, "    %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
	text.WriteString("\n")
}

func (r *Report) stats(text *strings.Builder) {
	if r.Stats == nil {
		return
	}
	fmt.Fprintf(text, "ready after %.1f s", r.Stats.SecondsToReady)
	if r.Stats.SecondsToFirstPodBound > 0 {
		fmt.Fprintf(text, ", first pod bound after %.1f s", r.Stats.SecondsToFirstPodBound)
	}
	fmt.Fprintf(text, ", done after %.1f s; at most %d MiB of memory\n",
		r.Stats.SecondsTotal, r.Stats.MaxResidentBytes>>20)
}
