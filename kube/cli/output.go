// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// apiVersion is that of JSON and YAML output.
const apiVersion = "kerf.dev/v1alpha1"

// outputFlag is -o.
type outputFlag struct {
	format  string
	formats []string
}

// add adds the flag; the empty format is for a person.
func (o *outputFlag) add(command *cobra.Command, formats ...string) {
	o.formats = formats
	command.Flags().StringVarP(&o.format, "output", "o", "", "output format: "+strings.Join(formats, ", "))
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return formats, cobra.ShellCompDirectiveNoFileComp
	}
	if err := command.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was added above
	}
}

// check refuses formats that the command does not have.
func (o *outputFlag) check() error {
	if o.format == "" || slices.Contains(o.formats, o.format) {
		return nil
	}
	return badInput("--output %q is not one of %s", o.format, strings.Join(o.formats, ", "))
}

// structured reports whether the output is for programs.
func (o *outputFlag) structured() bool { return o.format == "json" || o.format == "yaml" }

// print writes a value as JSON or YAML.
func (o *outputFlag) print(w io.Writer, value any) error {
	var text []byte
	var err error
	if o.format == "yaml" {
		text, err = yaml.Marshal(value)
	} else {
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	}
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("write output: %w", err)}
	}
	return writeRaw(w, text)
}

// write writes text for people.
func write(w io.Writer, text string) error { return writeRaw(w, []byte(printable(text))) }

func writeRaw(w io.Writer, text []byte) error {
	if _, err := w.Write(text); err != nil {
		return &exitError{exitFailed, fmt.Errorf("write output: %w", err)}
	}
	return nil
}

// table returns rows in columns without blanks at the end of lines.
func table(rows [][]string) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		row = slices.Clone(row)
		for i := range row {
			row[i] = oneLine(row[i])
		}
		// Writing to memory cannot fail.
		_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	_ = columns.Flush()
	var trimmed strings.Builder
	for line := range strings.Lines(text.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}
