// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/show"
)

// devicesFlags are the flags of kerf devices.
type devicesFlags struct {
	inputFlags
	output     outputFlag
	tree, free bool
	compound   bool
}

func (a *app) devicesCommand() *cobra.Command {
	f := &devicesFlags{inputFlags: inputFlags{app: a}}
	command := &cobra.Command{
		Use:   "devices",
		Short: "Show pools, cards and partitions, who holds them and what is left",
		Long: `Show all pools of devices. For each card (counter set) and each other device: who
holds it, what is left of it, and the largest partition that can still be
allocated. With --tree also every partition, every counter, and taints with their
source.`,
		Example: `  # A line for each card
  kerf devices

  # Everything, as a tree
  kerf devices --tree

  # What CompoundPolicies make of the devices
  kerf devices --compound -f slices.yaml -f policy.yaml

  # What could still be allocated, from a dump
  kerf devices --free -f dump.yaml -o name`,
		Args: noNames,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	f.add(command)
	f.addRedact(command)
	f.output.add(command, "wide", "json", "yaml", "name")
	command.Flags().BoolVar(&f.tree, "tree", false, "show every partition and counter, as a tree")
	command.Flags().BoolVar(&f.free, "free", false, "show only devices that can still be allocated")
	command.Flags().BoolVar(&f.compound, "compound", false, "show what CompoundPolicies of the input make of the devices")
	return command
}

// devicesReport is the output for programs.
type devicesReport struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Missing    []dump.Gap      `json:"missing,omitempty"`
	Pools      []show.PoolTree `json:"pools"`
	Admin      []adminAccess   `json:"adminAccess,omitempty"`
}

func (f *devicesFlags) run(ctx context.Context) error {
	if err := f.output.check(); err != nil {
		return err
	}
	if f.tree && f.output.format != "" {
		return badInput("--tree and --output exclude each other; -o json has everything that the tree shows")
	}
	in, err := f.read(ctx)
	if err != nil {
		return err
	}
	if err := f.enough(in, "resourceslices", "resourceclaims"); err != nil {
		return err
	}
	if f.compound && putCompounds(in.dump) {
		say(f.ErrOut, "note: policies leave something out; kerf lint says what, and why")
	}
	w := f.world(in)
	snapshot := w.Snapshot()
	options := w.Options()
	report := devicesReport{APIVersion: apiVersion, Kind: "DeviceReport", Missing: in.dump.Missing, Pools: []show.PoolTree{}}
	for pool, use := range snapshot.Pools {
		tree := show.PoolOf(pool, use, options)
		if f.free {
			tree = tree.Free()
		}
		report.Pools = append(report.Pools, tree)
	}
	report.Admin = adminAccessOf(in, w.Visible)
	if blind(in.dump) {
		say(f.ErrOut, "note: devices that claims of other namespaces hold look free")
	}
	if f.output.structured() {
		return f.output.print(f.Out, report)
	}
	return write(f.Out, f.text(&report))
}

func (f *devicesFlags) text(report *devicesReport) string {
	pools := report.Pools
	switch {
	case f.output.format == "name":
		return names(pools)
	case len(pools) == 0:
		return "No devices are published.\n"
	case f.tree:
		var text strings.Builder
		for i := range pools {
			text.WriteString(pools[i].Text())
		}
		return text.String() + adminText(report.Admin)
	}
	wide := f.output.format == "wide"
	rows := [][]string{{"POOL", "NODES", "DEVICE", "STATE", "LARGEST LEFT", "HELD BY"}}
	if wide {
		rows[0] = append(rows[0], "TAINTS", "COUNTERS LEFT")
	}
	var problems string
	for i := range pools {
		rows = append(rows, poolRows(&pools[i], wide)...)
		for _, problem := range pools[i].Problems {
			problems += fmt.Sprintf("Nothing can be allocated from %s/%s: %s\n", pools[i].Driver, pools[i].Pool, problem)
		}
		if rivals := pools[i].Rivals; rivals != "" && !strings.Contains(problems, rivals) {
			problems += "Note: " + rivals + "\n"
		}
	}
	if problems != "" {
		problems = "\n" + problems
	}
	return table(rows) + problems
}

func names(pools []show.PoolTree) string {
	var text strings.Builder
	for i := range pools {
		for _, devices := range append(cardDevices(&pools[i]), pools[i].Devices) {
			for k := range devices {
				fmt.Fprintf(&text, "%s/%s/%s\n", pools[i].Driver, pools[i].Pool, devices[k].Name)
			}
		}
	}
	return text.String()
}

func cardDevices(pool *show.PoolTree) [][]show.DeviceState {
	var devices [][]show.DeviceState
	for i := range pool.Cards {
		devices = append(devices, pool.Cards[i].Devices)
	}
	return devices
}

// poolRows has a row for each card and for each device without counters.
func poolRows(pool *show.PoolTree, wide bool) [][]string {
	var rows [][]string
	name := pool.Driver + "/" + pool.Pool
	for i := range pool.Cards {
		card := &pool.Cards[i]
		row := []string{name, orNone(cardNodes(pool, card)), card.Name, card.InUse(), orNone(card.Largest), orNone(holders(card.Devices))}
		if wide {
			row = append(row, orNone(taints(card.Devices)), card.CountersLeft())
		}
		rows = append(rows, row)
	}
	for i := range pool.Devices {
		d := &pool.Devices[i]
		nodes := d.Nodes
		if nodes == "" {
			nodes = pool.Nodes
		}
		row := []string{name, orNone(nodes), d.Name, d.State, "-", orNone(d.Holders())}
		if wide {
			row = append(row, orNone(taints(pool.Devices[i:i+1])), "-")
		}
		rows = append(rows, row)
	}
	for i := range pool.Gone {
		row := []string{name, "-", pool.Gone[i].Name, "not published", "-", orNone(pool.Gone[i].Holders())}
		if wide {
			row = append(row, "-", "-")
		}
		rows = append(rows, row)
	}
	return rows
}

// cardNodes are the nodes of the pool, or those of the card's devices where they
// differ within the pool.
func cardNodes(pool *show.PoolTree, card *show.Card) string {
	if pool.Nodes != "" {
		return pool.Nodes
	}
	var nodes []string
	for i := range card.Devices {
		if of := card.Devices[i].Nodes; of != "" && !slices.Contains(nodes, of) {
			nodes = append(nodes, of)
		}
	}
	return strings.Join(nodes, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// holders lists who holds any of the devices.
func holders(devices []show.DeviceState) string {
	all := show.DeviceState{}
	for i := range devices {
		all.HeldBy = append(all.HeldBy, devices[i].HeldBy...)
		all.HeldByOthers += devices[i].HeldByOthers
	}
	slices.Sort(all.HeldBy)
	all.HeldBy = slices.Compact(all.HeldBy)
	return all.Holders()
}

// taints lists the taints of the devices, each once.
func taints(devices []show.DeviceState) string {
	var all []show.TaintState
	for i := range devices {
		all = append(all, devices[i].Taints...)
	}
	return strings.Join(show.TaintTexts(all), ", ")
}
