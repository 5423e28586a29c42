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
	"kerf.dev/kerf/lint"
	"kerf.dev/kerf/selector"
)

// lintFlags are the flags of kerf lint.
type lintFlags struct {
	inputFlags
	output  outputFlag
	cluster bool
}

func (a *app) lintCommand() *cobra.Command {
	f := &lintFlags{inputFlags: inputFlags{app: a}}
	command := &cobra.Command{
		Use:   "lint (-f FILE|--cluster)",
		Short: "Find mistakes in pools, classes, claims and attributes",
		Long: `Find mistakes that keep devices from being allocated, or get them allocated
wrongly, before a pod waits because of them. For example:

  a pool that is incomplete, broken or published by several nodes
  a device that consumes from a counter set that does not exist
  a class whose selector matches nothing, or fails
  hardware that two drivers publish
  attributes whose names are easily confused
  two classes for the same extended resource

docs/cli.md lists all rules.

Exit codes:
  0  no errors; there may be warnings
  1  errors found
  2  bad input
  3  the cluster cannot be read`,
		Example: `  kerf lint -f manifests/
  kerf lint --cluster
  kerf lint -f dump.yaml -o json | jq -r '.findings[].rule'`,
		Args: noNames,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	f.add(command)
	f.output.add(command, "json", "yaml", "name")
	command.Flags().BoolVar(&f.cluster, "cluster", false, "look at the cluster of the kubeconfig")
	return command
}

// lintReport is the output for programs.
type lintReport struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Missing    []dump.Gap    `json:"missing,omitempty"`
	Findings   []lintFinding `json:"findings"`
}

// lintFinding is a finding and where it is in the files.
type lintFinding struct {
	lint.Finding
	Position string `json:"position,omitempty"` // file:line
}

// placed adds where a finding is. What is wrong with a pod that a workload makes is
// wrong with its template.
func placed(finding lint.Finding, at position) lintFinding {
	if at.in == nil {
		return lintFinding{Finding: finding}
	}
	source := at.in.Errorf(at.field(finding.Field), "").Source
	if at.template {
		finding.Kind, finding.Name, finding.Field = at.in.GetKind(), at.in.GetName(), at.field(finding.Field)
	}
	return lintFinding{finding, fmt.Sprintf("%s:%d", source.File, source.Line)}
}

func (f *lintFlags) run(ctx context.Context) error {
	if err := f.output.check(); err != nil {
		return err
	}
	if f.cluster == (len(f.files) > 0) {
		return badInput("say what to look at: either -f FILE or --cluster")
	}
	in, err := f.read(ctx)
	if err != nil {
		return err
	}
	if err := f.enough(in, decisive...); err != nil {
		return err
	}
	report := lintReport{APIVersion: apiVersion, Kind: "LintReport", Missing: in.dump.Missing, Findings: []lintFinding{}}
	refusals, err := in.refusals(ctx)
	if err != nil {
		return err
	}
	errors := 0
	for _, finding := range lint.Check(&in.dump.Objects, selector.New(), refusals) {
		at := in.position(finding.Object())
		placed := placed(finding, at)
		if at.template && slices.Contains(report.Findings, placed) {
			continue // it was found in another pod from the template
		}
		report.Findings = append(report.Findings, placed)
		if finding.Level == lint.Error {
			errors++
		}
	}
	if f.output.structured() {
		err = f.output.print(f.Out, report)
	} else {
		err = write(f.Out, f.text(report.Findings, errors))
	}
	if err == nil && errors > 0 {
		return &exitError{code: exitFindings}
	}
	return err
}

func (f *lintFlags) text(findings []lintFinding, errors int) string {
	var text strings.Builder
	for i := range findings {
		finding := &findings[i]
		if f.output.format == "name" {
			text.WriteString(finding.Object() + "\n")
			continue
		}
		if finding.Position != "" {
			text.WriteString(finding.Position + ": ")
		}
		fmt.Fprintf(&text, "%s: %s: %s: %s [%s]\n    fix: %s\n",
			finding.Level, finding.Object(), finding.Field, finding.Problem, finding.Rule, finding.Fix)
	}
	if f.output.format != "name" {
		fmt.Fprintf(&text, "%s, %s\n", counted(errors, "error"), counted(len(findings)-errors, "warning"))
	}
	return text.String()
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
