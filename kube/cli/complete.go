// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completionLimit bounds what the shell waits for.
const completionLimit = 500

// complete offers kinds, then names of the files or of the cluster. Errors go to
// the log that BASH_COMP_DEBUG_FILE names; a shell has no place to show them.
func (f *explainFlags) complete(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const nothingElse = cobra.ShellCompDirectiveNoFileComp
	word, _, slashed := strings.Cut(append(args, typed)[0], "/")
	if len(args) == 0 && !slashed {
		return []string{"pod", "claim"}, nothingElse
	}
	kind, _, err := targets([]string{word})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, nothingElse
	}
	names, err := f.namesOf(command, kind)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, nothingElse
	}
	if slashed {
		for i := range names {
			names[i] = word + "/" + names[i]
		}
	}
	return names, nothingElse
}

func (f *explainFlags) namesOf(command *cobra.Command, kind string) ([]string, error) {
	if len(f.files) > 0 {
		in, err := f.readFiles(command.Context())
		if err != nil {
			return nil, err
		}
		if kind == "pod" {
			return namesIn(in.dump.Pods, in.namespace), nil
		}
		return namesIn(in.dump.ResourceClaims, in.namespace), nil
	}
	namespace, err := f.namespace(false)
	if err != nil {
		return nil, err
	}
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{Limit: completionLimit}
	var names []string
	if kind == "pod" {
		list, err := client.CoreV1().Pods(namespace).List(command.Context(), options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	}
	list, err := client.ResourceV1().ResourceClaims(namespace).List(command.Context(), options)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

func namesIn[T named](objects []T, namespace string) []string {
	var names []string
	for _, o := range objects {
		if o.GetNamespace() == namespace {
			names = append(names, o.GetName())
		}
	}
	return names
}
