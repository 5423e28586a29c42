// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/sandbox/cluster"
)

// ponder is a plugin whose Filter takes as long as the test wants for pods with this label.
type ponder struct {
	started chan struct{} // gets a value when such an attempt begins
	think   chan struct{} // is closed to end it
}

const pondered = "ponder"

func (p *ponder) Name() string { return "Ponder" }

func (p *ponder) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if _, ok := pod.Labels[pondered]; !ok {
		return nil
	}
	select {
	case p.started <- struct{}{}:
	default:
	}
	select {
	case <-p.think:
	case <-ctx.Done():
	}
	return nil
}

// scheduler is the default one with the plugin.
func (p *ponder) scheduler() *SchedulerOptions {
	o := defaultScheduler()
	o.Plugins["Ponder"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
	const enabled = "      enabled:\n"
	o.Config = []byte(strings.Replace(string(o.Config), enabled, enabled+"      - name: Ponder\n", 1))
	return o
}

// testPondering expects that a scheduler which computes without a sign of life is waited
// for, that this is said, and that it is no verdict when time is up.
func testPondering(t *testing.T, s *Sandbox, p *ponder, told <-chan string) {
	const computes = "pods/thought in namespace default: the scheduler is still computing where it could go"
	apply(t, s, `
apiVersion: v1
kind: Pod
metadata: {name: thought, labels: {ponder: "yes"}}
spec: {containers: [{name: main, image: none}]}
`)
	select {
	case <-p.started:
	case <-time.After(limit):
		t.Fatal("the scheduler does not try the pod")
	}
	settlement, err := s.Settle(t.Context(), time.Second)
	if timeout := (*NotSettledError)(nil); !errors.As(err, &timeout) || len(timeout.Moving) != 1 || timeout.Moving[0].String() != computes {
		t.Errorf("after a second: %v, want that %s", err, computes)
	} else if why := whyThought(settlement); why != cluster.ReasonScheduling+": the scheduler is still computing where it could go" {
		t.Errorf("after a second: %q, want that the scheduler computes", why)
	}

	for len(told) > 0 {
		<-told
	}
	settled := make(chan *Settlement, 1)
	go func() {
		defer close(settled)
		if settlement, err := s.Settle(t.Context(), limit); err != nil {
			t.Error(err)
		} else {
			settled <- settlement
		}
	}()
	select {
	case text := <-told:
		if !strings.Contains(text, computes) {
			t.Errorf("told %q, want that %s", text, computes)
		}
	case settlement := <-settled:
		t.Errorf("settled while the scheduler computes, stuck: %v", settlement.Stuck)
	}
	close(p.think)
	if settlement := <-settled; settlement != nil && (len(settlement.Stuck) > 0 || whyThought(settlement) != "") {
		t.Errorf("settled: %q, stuck: %v, want the pod placed", whyThought(settlement), settlement.Stuck)
	}
}

// whyThought is why the pod has no node, empty if it has one.
func whyThought(settlement *Settlement) string {
	for _, p := range settlement.Pending {
		if p.Pod.Name == "thought" {
			return p.Reason + ": " + p.Message
		}
	}
	return ""
}
