// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package churn lets pods come and go on the partitions of an example for a long
// time and checks the books after every round.
package churn

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/sandboxtest"
	"kerf.dev/kerf/selector"
)

const (
	example = "../../examples/partitioned-gpus/"
	// cards and sevenths are what the example has: two nodes with four cards,
	// each of which holds seven of the smallest partitions.
	cards, sevenths = 8, 7
	// pods are as many as leaves some of them waiting in most rounds.
	pods = 40
)

// rounds of deleting half of the pods and creating new ones. Each takes a few
// seconds, most of them the backoff of pods that do not fit.
var rounds = flag.Int("rounds", 20, "how often pods come and go")

// templates are those of the example, each for another partition.
var templates = []string{"small", "small-with-media-engine", "medium", "half", "whole-card"}

func TestChurn(t *testing.T) {
	s := sandboxtest.Start(t, sandbox.Options{Scheduler: sandbox.ImpatientScheduler()})
	set, err := manifest.Load(nil, example+"cluster.yaml", example+"classes.yaml", example+"claims.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	c := &churn{Sandbox: s, t: t, random: rand.New(rand.NewPCG(1, 2))}
	c.fill()
	for round := range *rounds {
		c.round(round)
	}
}

type churn struct {
	*sandbox.Sandbox
	t       *testing.T
	random  *rand.Rand
	created int
}

// fill gives out every smallest partition of every card, and takes them back.
func (c *churn) fill() {
	c.create(cards*sevenths+1, "small")
	state := c.settle()
	bound := 0
	for i := range state.Pods {
		if state.Pods[i].Spec.NodeName != "" {
			bound++
		}
	}
	if bound != cards*sevenths {
		c.t.Errorf("%d of the smallest partitions are given out, want %d", bound, cards*sevenths)
	}
	c.check(state)
	c.deletePods(state.Pods)
}

// round deletes half of the pods, creates new ones and checks the outcome.
func (c *churn) round(n int) {
	state := c.state()
	c.random.Shuffle(len(state.Pods), func(i, j int) { state.Pods[i], state.Pods[j] = state.Pods[j], state.Pods[i] })
	c.deletePods(state.Pods[:len(state.Pods)/2])
	for range pods - (len(state.Pods) - len(state.Pods)/2) {
		c.create(1, templates[c.random.IntN(len(templates))])
	}
	state = c.settle()
	if len(state.Pods) != pods {
		c.t.Errorf("round %d: %d pods, want %d", n, len(state.Pods), pods)
	}
	c.check(state)
	if c.t.Failed() {
		c.t.Fatalf("round %d failed", n)
	}
}

// check expects that nothing is given out twice or over-committed, and that
// nothing waits that would fit.
func (c *churn) check(state *cluster.State) {
	for _, v := range sandbox.Verify(state) {
		c.t.Errorf("%v", v)
	}
	inv := inventory.New()
	for i := range state.ResourceSlices {
		inv.SetSlice(state.ResourceSlices[i])
	}
	for i := range state.ResourceClaims {
		inv.SetClaim(state.ResourceClaims[i])
	}
	snapshot := inv.Snapshot()
	for i := range state.Pods {
		if pod := state.Pods[i]; pod.Spec.NodeName == "" {
			c.expectNoRoom(state, snapshot, pod)
		}
	}
}

func (c *churn) expectNoRoom(state *cluster.State, snapshot *inventory.Snapshot, pod *corev1.Pod) {
	var claims []*resourceapi.ResourceClaim
	for _, claim := range state.PodClaims(pod) {
		claims = append(claims, claim)
	}
	problem, err := alloc.Compile(claims, state.Class, selector.New(), alloc.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, node := range state.Nodes {
		outcome, err := problem.Allocate(snapshot.View(node))
		if err != nil {
			c.t.Fatal(err)
		}
		if outcome.Refusal == nil {
			c.t.Errorf("pod %s waits, but fits on node %s", pod.Name, node.Name)
		}
	}
}

func (c *churn) create(n int, template string) {
	for range n {
		c.created++
		sandboxtest.Apply(c.t, c.Sandbox, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: pod-%05d}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
`, c.created, template))
	}
}

func (c *churn) deletePods(pods []*corev1.Pod) {
	for i := range pods {
		if err := c.Client().CoreV1().Pods(pods[i].Namespace).Delete(c.t.Context(), pods[i].Name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *churn) state() *cluster.State {
	state, err := c.State(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return state
}

func (c *churn) settle() *cluster.State {
	c.t.Helper()
	return sandboxtest.Settle(c.t, c.Sandbox)
}
