// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/show"
)

// explainFlags are the flags of kerf explain.
type explainFlags struct {
	inputFlags
	output outputFlag
	all    bool
}

func (a *app) explainCommand() *cobra.Command {
	f := &explainFlags{inputFlags: inputFlags{app: a}}
	command := &cobra.Command{
		Use:   "explain (pod|claim) [NAME...]",
		Short: "Say why a pod or claim got its devices, or why it waits",
		Long: `Say why a pod or claim has its devices, or why it waits.

If it has devices: which ones, on which nodes they can be used, which alternative
of a prioritized list was taken and why no better one, the value that a constraint
settled on, and the state of binding conditions.

If it waits: what stopped it on each node, who holds the devices, and what would
have to change for it to fit. Nodes with the same reason share a line.

Without NAME it explains all pods that wait, or all claims.`,
		Example: `  # Why does this pod wait?
  kerf explain pod training-4

  # All pods that wait, in all namespaces, from a dump
  kerf explain pods -A -f dump.yaml

  # For somebody who must not see names of other namespaces
  kerf explain claim/training -n team-a --redact`,
		Args: kindAndNames,
		RunE: func(command *cobra.Command, args []string) error { return f.run(command.Context(), args) },
	}
	f.add(command)
	f.addRedact(command)
	f.output.add(command, "json", "yaml", "name")
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "look at all namespaces")
	command.ValidArgsFunction = f.complete
	return command
}

// explainReport is the output for programs.
type explainReport struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Missing    []dump.Gap       `json:"missing,omitempty"`
	Pods       []show.PodState  `json:"pods,omitempty"`
	Claims     []show.ClaimWait `json:"claims,omitempty"`
}

// The kinds that can be explained, as users write them.
var (
	podWords   = []string{"pod", "pods", "po"}
	claimWords = []string{"claim", "claims", "resourceclaim", "resourceclaims", "resourceclaim.resource.k8s.io"}
)

// targets splits TYPE NAME... and TYPE/NAME... into a kind and names.
func targets(args []string) (kind string, names []string, err error) {
	word, name, slashed := strings.Cut(args[0], "/")
	for _, w := range podWords {
		if w == word {
			kind = "pod"
		}
	}
	for _, w := range claimWords {
		if w == word {
			kind = "claim"
		}
	}
	if kind == "" {
		return "", nil, badInput("%q cannot be explained; say pod NAME or claim NAME", args[0])
	}
	if !slashed {
		return kind, args[1:], nil
	}
	names = []string{name}
	for _, arg := range args[1:] {
		other, name, slashed := strings.Cut(arg, "/")
		if !slashed || other != word {
			return "", nil, badInput("%q does not go with %q; say %s/NAME", arg, args[0], word)
		}
		names = append(names, name)
	}
	return kind, names, nil
}

func (f *explainFlags) run(ctx context.Context, args []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	kind, names, err := targets(args)
	if err != nil {
		return err
	}
	if f.all && len(names) > 0 {
		return badInput("--all-namespaces and a name exclude each other; use -n NAMESPACE")
	}
	in, err := f.read(ctx)
	if err != nil {
		return err
	}
	if err := refuseMisdirected(in, f.visible(in)); err != nil {
		return err
	}
	if err := f.known(in, kind); err != nil {
		return err
	}
	report := explainReport{APIVersion: apiVersion, Kind: "Explanation", Missing: in.dump.Missing}
	w := f.world(in)
	if kind == "pod" {
		report.Pods, err = f.pods(w, in, names)
	} else {
		report.Claims, err = f.claims(w, in, names)
	}
	if err != nil {
		return err
	}
	if f.output.structured() {
		return f.output.print(f.Out, report)
	}
	return write(f.Out, f.text(kind, &report, in))
}

// known refuses input that lacks what is asked for or what the answer rests on.
func (f *explainFlags) known(in *input, kind string) error {
	asked := map[string]string{"pod": "pods", "claim": "resourceclaims"}[kind]
	if err := in.needsIn(asked, in.namespace, f.all); err != nil {
		return err
	}
	return f.enough(in, decisive...)
}

// nameOf is TYPE/NAME as kubectl has it; among all namespaces TYPE/NAMESPACE/NAME,
// which kerf explain takes as well.
func (f *explainFlags) nameOf(kind, namespace, name string) string {
	if f.all {
		name = namespace + "/" + name
	}
	return kind + "/" + name + "\n"
}

func (f *explainFlags) text(kind string, report *explainReport, in *input) string {
	var texts []string
	for i := range report.Pods {
		if f.output.format == "name" {
			texts = append(texts, f.nameOf("pod", report.Pods[i].Namespace, report.Pods[i].Name))
		} else {
			texts = append(texts, report.Pods[i].Text())
		}
	}
	for i := range report.Claims {
		if f.output.format == "name" {
			texts = append(texts, f.nameOf("resourceclaim.resource.k8s.io", report.Claims[i].Namespace, report.Claims[i].Name))
		} else {
			texts = append(texts, report.Claims[i].Text())
		}
	}
	if f.output.format == "name" {
		return strings.Join(texts, "")
	}
	if len(texts) == 0 {
		where := "namespace " + in.namespace
		if f.all {
			where = "any namespace"
		}
		return fmt.Sprintf("No %s in %s.\n", map[string]string{"pod": "pod waits", "claim": "claims"}[kind], where)
	}
	return strings.Join(texts, "\n")
}

// pods explains the named pods, or those that wait, be it on a node.
func (f *explainFlags) pods(w *show.World, in *input, names []string) ([]show.PodState, error) {
	chosen, err := choose(in.dump.Pods, "pod", names, f.inScope(in), f.visible(in), func(p *v1.Pod) bool {
		return p.Spec.NodeName == "" && !claim.Ended(p) || w.Stranded(p) != nil
	})
	if err != nil {
		return nil, err
	}
	var states []show.PodState
	for _, pod := range chosen {
		state, err := w.Pod(pod)
		if err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("explain pod %s/%s: %w", pod.Namespace, pod.Name, err)}
		}
		states = append(states, state)
	}
	return states, nil
}

// claims explains the named claims, or all.
func (f *explainFlags) claims(w *show.World, in *input, names []string) ([]show.ClaimWait, error) {
	all := func(*resourceapi.ResourceClaim) bool { return true }
	chosen, err := choose(in.dump.ResourceClaims, "claim", names, f.inScope(in), f.visible(in), all)
	if err != nil {
		return nil, err
	}
	var states []show.ClaimWait
	for _, claim := range chosen {
		state, err := w.Claim(claim, in.dump.Pods)
		if err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("explain claim %s/%s: %w", claim.Namespace, claim.Name, err)}
		}
		states = append(states, state)
	}
	return states, nil
}

func (f *explainFlags) inScope(in *input) func(namespace string) bool {
	return func(namespace string) bool { return f.all || namespace == in.namespace }
}

func (f *explainFlags) visible(in *input) func(namespace string) bool {
	return func(namespace string) bool { return !f.redact || namespace == in.namespace }
}

// named is a namespaced object.
type named interface {
	GetName() string
	GetNamespace() string
}

// choose returns the objects of those names (NAME or NAMESPACE/NAME), in their
// order, or without names those that by default are meant. Errors name no
// namespace that is not visible.
func choose[T named](from []T, kind string, names []string, inScope, visible func(namespace string) bool, byDefault func(T) bool) ([]T, error) {
	var chosen []T
	if len(names) == 0 {
		for _, o := range from {
			if inScope(o.GetNamespace()) && byDefault(o) {
				chosen = append(chosen, o)
			}
		}
		return chosen, nil
	}
	for _, asked := range names {
		namespace, name, qualified := strings.Cut(asked, "/")
		if !qualified {
			namespace, name = "", asked
		}
		wanted := func(o T) bool {
			return o.GetNamespace() == namespace || !qualified && inScope(o.GetNamespace())
		}
		found := false
		elsewhere := ""
		for _, o := range from {
			switch {
			case o.GetName() != name:
			case wanted(o):
				chosen, found = append(chosen, o), true
			case visible(o.GetNamespace()):
				elsewhere = o.GetNamespace()
			}
		}
		if found {
			continue
		}
		if elsewhere != "" {
			return nil, badInput("%s %q: not in this namespace, but in %s; use -n %s", kind, asked, elsewhere, elsewhere)
		}
		return nil, badInput("%s %q: there is none of that name; look with kubectl get, or use -n NAMESPACE", kind, asked)
	}
	return chosen, nil
}
