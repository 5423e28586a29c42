// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// noNames is for commands that take flags only.
func noNames(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badInput("%q: %s takes no names; see %s --help", strings.Join(args, " "), command.CommandPath(), command.CommandPath())
	}
	return nil
}

// atMostOne is for commands that take one name, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) > 1 {
			return badInput("%q: %s takes one %s", strings.Join(args, " "), command.CommandPath(), what)
		}
		return nil
	}
}

// kindAndNames is for kerf explain.
func kindAndNames(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return badInput("say what to explain: pod or claim, and perhaps names")
	}
	return nil
}

// goError is what the flag library quotes of Go's parser of values.
var goError = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)

// flagError is the flag library's error without Go's terms.
func flagError(command *cobra.Command, err error) error {
	return badInput("%s; see %s --help", goError.ReplaceAllString(err.Error(), ""), command.CommandPath())
}

// refuseUnknown makes the commands of the command library fail for names that
// they do not know; they would print help and succeed.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() {
		case "completion":
			command.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return badInput("completion %q: there is none for that shell; say bash, zsh, fish or powershell", args[0])
				}
				return nil
			}
			command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
		case "help":
			command.Args = func(_ *cobra.Command, args []string) error {
				if found, _, err := root.Find(args); err != nil || found == root && len(args) > 0 {
					return badInput("help %q: there is no such command", strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}
