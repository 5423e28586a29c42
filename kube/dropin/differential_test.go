// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/kube/dropin"
)

var (
	firstSeed = flag.Uint64("seed", 0, "first seed of the differential test")
	seeds     = flag.Uint64("seeds", 1500, "number of problems of the differential test")
)

func TestMain(m *testing.M) {
	// Features that are off must not make the stock allocator another one.
	structured.EnableAllocators("experimental")
	os.Exit(m.Run())
}

// patience is the time after which the stock allocator's answer is not awaited
// any more; it may need longer than the universe has.
const patience = 2 * time.Second

// TestLikeStock gives the same problems to both allocators and expects the same
// answers, but for what 1.37 leaves open, see settled.
func TestLikeStock(t *testing.T) {
	upstream := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	own := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	outcomes := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		p := generate(seed)
		before := p.text(t)
		known, differs := p.settled()
		if differs {
			outcomes["settled"]++
		}
		ours, err := dropin.NewAllocator(t.Context(), p.features, p.state, p.classes, p.slices, own)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range p.nodes {
			// What the stock allocator knows about groups that should not be
			// together depends on the node for which it was used first.
			theirs, err := structured.NewAllocator(t.Context(), known.features, known.state, known.classes, known.slices, upstream)
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := patiently(t, theirs, node, known.claims)
			if errors.Is(wantErr, context.DeadlineExceeded) {
				outcomes["too slow"]++
				continue
			}
			unsettle(want)
			got, gotErr := ours.Allocate(t.Context(), node, p.claims)
			outcomes[outcome(want, wantErr)]++
			if wantErr != nil && gotErr != nil && canonical(wantErr) != canonical(gotErr) {
				outcomes["another of several errors"]++
			}
			if problem := compare(want, got, wantErr, gotErr); problem != "" {
				t.Errorf("seed %d, %s: %s\n%s", seed, node.Name, problem, before)
			}
		}
		if after := p.text(t); after != before {
			t.Errorf("seed %d: the input was changed:\n%s", seed, cmp.Diff(before, after))
		}
		if t.Failed() {
			break
		}
	}
	t.Log(outcomes)
	if outcomes["another of several errors"]*20 > outcomes["error"] {
		t.Error("errors have other texts")
	}
	if n := int(*seeds); outcomes["result"]*10 < n || outcomes["error"]*10 < n || outcomes["nothing"]*10 < n {
		t.Error("the problems are too much alike")
	}
}

func patiently(t *testing.T, a structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return a.Allocate(ctx, node, claims)
}

func outcome(results []resourceapi.AllocationResult, err error) string {
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return "invalid pools"
	case err != nil:
		return "error"
	case results == nil:
		return "nothing"
	}
	return "result"
}

// compare says how answers differ.
func compare(want, got []resourceapi.AllocationResult, wantErr, gotErr error) string {
	onNode := structured.ErrFailedAllocationOnNode
	switch {
	case (wantErr == nil) != (gotErr == nil) || errors.Is(wantErr, onNode) != errors.Is(gotErr, onNode):
		return fmt.Sprintf("error %v, want %v; gives %s, want %s", gotErr, wantErr, text(got), text(want))
	case wantErr != nil:
		return ""
	}
	if problem := maskShares(want, got); problem != "" {
		return problem
	}
	if !reflect.DeepEqual(want, got) {
		return "results differ (-want +got):\n" + cmp.Diff(text(want), text(got))
	}
	return ""
}

// canonical leaves out what the stock allocator's texts say by accident: dumps of
// structures; and which amount is negative, see settled.
func canonical(err error) string {
	text := strings.ReplaceAll(err.Error(), below, "mem")
	text, _, _ = strings.Cut(text, ": request -")
	if i := strings.Index(text, "failed to perform node selection"); i >= 0 {
		text = text[:i]
	}
	return text
}

// maskShares checks that share IDs are where they should be and differ, and then
// takes the chance out of them.
func maskShares(want, got []resourceapi.AllocationResult) string {
	seen := map[string]bool{}
	for _, results := range [][]resourceapi.AllocationResult{want, got} {
		for i := range results {
			for j := range results[i].Devices.Results {
				id := results[i].Devices.Results[j].ShareID
				if id == nil {
					continue
				}
				if seen[string(*id)] || *id == "" {
					return fmt.Sprintf("share ID %q is not unique", *id)
				}
				seen[string(*id)] = true
				*id = "share"
			}
		}
	}
	return ""
}

func text(v any) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// text writes the whole problem, a line per object.
func (p *problem) text(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "features: %v\n", sets.List(p.features.Set()))
	line := func(o any) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(data, '\n'))
	}
	for _, node := range p.nodes {
		fmt.Fprintf(&b, "%s %v %v\n", node.Name, node.Labels, node.Status.DeclaredFeatures)
	}
	for _, s := range p.slices {
		fmt.Fprintf(&b, "%s: ", s.Name)
		line(s.Spec)
	}
	for _, class := range p.classes {
		fmt.Fprintf(&b, "%s: ", class.Name)
		line(class.Spec)
	}
	for _, claim := range p.claims {
		fmt.Fprintf(&b, "%s: ", claim.Name)
		line(claim.Spec)
	}
	var ids []string
	for _, id := range p.state.AllocatedDevices.UnsortedList() {
		ids = append(ids, id.String())
	}
	for id := range p.state.AllocatedSharedDeviceIDs {
		ids = append(ids, id.String())
	}
	slices.Sort(ids)
	fmt.Fprintf(&b, "allocated: %v %v\n", ids, p.state.AggregatedCapacity)
	return b.String()
}
