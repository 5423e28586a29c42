// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/show"
)

// simulateFlags are the flags of kerf simulate.
type simulateFlags struct {
	inputFlags
	output           outputFlag
	cluster, pending bool
	save             string
}

func (a *app) simulateCommand() *cobra.Command {
	f := &simulateFlags{inputFlags: inputFlags{app: a}}
	command := &cobra.Command{
		Use:   "simulate (-f DUMP|--cluster) (-f NEW...|--pending)",
		Short: "Try out where pods would go",
		Long: `Say on which node and with which devices new pods would run, or why they would
wait. The new pods come from manifests. The cluster comes from a dump, from
manifests, or with --cluster from the kubeconfig. Nothing is written to it.

Pods are placed one after the other, by priority, then in the order of the files.
A Deployment, StatefulSet, ReplicaSet or Job stands for its pods.

Devices are allocated exactly as kerf-scheduler does it. Of the nodes, simulate
looks at cpu, memory, the number of pods, taints, selectors and node affinity.

Exit codes:
  0  all pods fit
  1  a pod does not fit
  2  bad input
  3  the cluster cannot be read`,
		Example: `  # Would these fit?
  kerf dump dump.yaml
  kerf simulate -f dump.yaml -f new-pods.yaml

  # The same in one step
  kerf simulate --cluster -f new-pods.yaml

  # And what would be left?
  kerf simulate -f dump.yaml -f new-pods.yaml --save after.yaml
  kerf devices -f after.yaml

  # Would the pods that wait in the cluster fit?
  kerf simulate --cluster --pending

  # A cluster that does not exist yet
  kerf simulate -f examples/partitioned-gpus -o json`,
		Args: noNames,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	f.add(command)
	f.output.add(command, "json", "yaml", "name")
	command.Flags().BoolVar(&f.cluster, "cluster", false, "start from the cluster of the kubeconfig")
	command.Flags().StringVar(&f.save, "save", "", "write the outcome as a dump to this file")
	command.Flags().BoolVar(&f.pending, "pending", false, "also place the pods that wait in the dump or cluster")
	return command
}

// simulateReport is the output for programs.
type simulateReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Missing is what the cluster or dump lacks.
	Missing []dump.Gap `json:"missing,omitempty"`
	Summary struct {
		Placed  int `json:"placed"`
		Waiting int `json:"waiting"`
	} `json:"summary"`
	Pods []show.PodState `json:"pods"`
}

func (f *simulateFlags) run(ctx context.Context) error {
	if err := f.output.check(); err != nil {
		return err
	}
	in, err := f.readBoth(ctx)
	if err != nil {
		return err
	}
	if err := refuseMisdirected(in, func(string) bool { return true }); err != nil {
		return err
	}
	pods := f.toPlace(in)
	switch {
	case len(in.dump.Nodes) == 0:
		return badInput("there is no Node in the input; name a dump or manifests with nodes, or use --cluster")
	case len(pods) == 0 && !f.pending:
		return badInput("there is no pod to place: no manifest has one without spec.nodeName (pods of a dump are placed with --pending)")
	}
	if err := f.enough(in, decisive...); err != nil {
		return err
	}
	w := f.world(in)
	report, err := placeAll(ctx, w, pods)
	if err != nil {
		return err
	}
	if err := report.addStranded(ctx, w, f.considered(in)); err != nil {
		return err
	}
	report.Missing = in.dump.Missing
	if f.save != "" {
		if err := save(in.after(w), f.save); err != nil {
			return err
		}
	}
	if f.output.structured() {
		err = f.output.print(f.Out, report)
	} else {
		err = write(f.Out, f.text(report))
	}
	if err == nil && report.Summary.Waiting > 0 {
		return &exitError{code: exitFindings}
	}
	return err
}

// readBoth reads the files and, if asked for, the cluster below them.
func (f *simulateFlags) readBoth(ctx context.Context) (*input, error) {
	switch {
	case len(f.files) == 0 && f.cluster && f.pending:
		in, err := f.read(ctx)
		if err != nil {
			return nil, err
		}
		in.files = &files{}
		return in, nil
	case len(f.files) == 0:
		return nil, badInput("no pods: name files or directories with -f, or use --cluster --pending for pods that wait in the cluster")
	}
	if !f.cluster {
		return f.readFiles(ctx)
	}
	set, err := f.manifests(ctx)
	if err != nil {
		return nil, err
	}
	below, err := f.inputFlags.cluster(ctx)
	if err != nil {
		return nil, err
	}
	in, err := f.take(ctx, set, below)
	if err != nil {
		return nil, err
	}
	in.live = true
	f.tellKnown("cluster", in.files.above(below))
	in.dump = in.files.dump
	return in, nil
}

// considered are the pods of manifests and, with --pending, those of dumps before them.
func (f *simulateFlags) considered(in *input) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range in.dump.Pods {
		if f.pending && !slices.Contains(in.files.listed, pod) {
			pods = append(pods, pod)
		}
	}
	return append(pods, in.files.listed...)
}

// toPlace are those of them that have no node.
func (f *simulateFlags) toPlace(in *input) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range f.considered(in) {
		if pod.Spec.NodeName == "" && !claim.Ended(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return int(priority(b)) - int(priority(a)) })
	return pods
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// placeAll can take long, and ends between two pods when the context does.
func placeAll(ctx context.Context, w *show.World, pods []*v1.Pod) (*simulateReport, error) {
	report := &simulateReport{APIVersion: apiVersion, Kind: "Simulation", Pods: []show.PodState{}}
	for _, pod := range pods {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := w.Place(pod)
		if err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("place pod %s/%s: %w", pod.Namespace, pod.Name, err)}
		}
		state, err := w.Placed(v)
		if err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("describe pod %s/%s: %w", pod.Namespace, pod.Name, err)}
		}
		report.Pods = append(report.Pods, state)
		if state.Node != "" {
			report.Summary.Placed++
		} else {
			report.Summary.Waiting++
		}
	}
	return report, nil
}

// addStranded adds the pods that have a node, and cannot start there even with what the
// others got.
func (r *simulateReport) addStranded(ctx context.Context, w *show.World, pods []*v1.Pod) error {
	for _, pod := range pods {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.Stranded(pod) == nil {
			continue
		}
		state, err := w.Pod(pod)
		if err != nil {
			return &exitError{exitFailed, fmt.Errorf("describe pod %s/%s: %w", pod.Namespace, pod.Name, err)}
		}
		r.Pods = append(r.Pods, state)
		r.Summary.Waiting++
	}
	return nil
}

func (f *simulateFlags) text(report *simulateReport) string {
	if f.output.format == "name" {
		var text strings.Builder
		for i := range report.Pods {
			text.WriteString("pod/" + report.Pods[i].Namespace + "/" + report.Pods[i].Name + "\n")
		}
		return text.String()
	}
	rows := [][]string{{"NAMESPACE", "POD", "NODE", "CLAIM", "REQUEST", "DEVICE"}}
	var waiting []string
	for i := range report.Pods {
		if pod := &report.Pods[i]; pod.Node == "" || pod.Obstacle != "" {
			waiting = append(waiting, pod.Text())
		} else {
			rows = append(rows, placementRows(pod)...)
		}
	}
	var text string
	if len(rows) > 1 {
		text = table(rows) + "\n"
	}
	for _, pod := range waiting {
		text += pod + "\n"
	}
	return text + fmt.Sprintf("%d placed, %d waiting\n", report.Summary.Placed, report.Summary.Waiting)
}

// placementRows has a row for each device, the first with the pod's name.
func placementRows(pod *show.PodState) [][]string {
	lead := []string{pod.Namespace, pod.Name, pod.Node}
	var rows [][]string
	for i := range pod.Claims {
		claim := &pod.Claims[i]
		entry := claim.Entry
		if claim.Special {
			entry = "(extended resources)"
		}
		for k := range claim.Requests {
			r := &claim.Requests[k]
			request := cmp.Or(r.For, r.Name)
			if r.Alternative != "" {
				request += "/" + r.Alternative
			}
			for _, d := range r.Devices {
				rows = append(rows, append(slices.Clone(lead), entry, request, d.Device))
				lead = []string{"", "", ""}
			}
		}
	}
	if len(rows) == 0 {
		rows = append(rows, append(lead, "", "", ""))
	}
	return rows
}
