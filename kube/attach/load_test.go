// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
)

// count is the sum of a metric.
func (r *rig) count(name string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	r.must(err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// TestLoad has twenty claims be allocated at once, of a shelf of 400 devices, on one
// node and on ten, and looks at what that costs.
func TestLoad(t *testing.T) {
	const claims, operations, perMachine = 20, 4, 2
	for _, hosts := range []int{1, 10} {
		t.Run(fmt.Sprintf("%d nodes", hosts), func(t *testing.T) {
			config := description.Config{Blocks: []description.Block{{ID: "gpu", Count: 400, Model: "A100"}}, Tasks: true}
			for i := range hosts {
				config.Hosts = append(config.Hosts, description.Host{ID: fmt.Sprint("host-", i)})
			}
			r := rigWith(t, config, guardedBy(v1alpha1.GuardDeviceTaintRule, v1alpha1.GuardReservation), func(f *v1alpha1.Fabric) {
				f.Spec.Concurrency = v1alpha1.Concurrency{Operations: ptr.To[int32](operations), PerMachine: ptr.To[int32](perMachine)}
			})
			for i := range hosts {
				r.must(r.client.Create(t.Context(), node(fmt.Sprint("n", i), fmt.Sprint("host-", i))))
			}
			// An inventory of this size is 400 requests.
			r.tune = func(p *fabric.Policy) { p.PollInterval, p.InventoryInterval = 200*time.Millisecond, time.Second }
			r.run()
			r.eventually("all are offered", func() bool { return len(r.offered()) == 400 })
			var all []*resourceapi.ResourceClaim
			for i := range claims {
				all = append(all, r.claim(fmt.Sprint("c", i), fmt.Sprint("gpu-", 1+i), fmt.Sprint("n", i%hosts)))
			}
			r.eventually("all are at their hosts", func() bool {
				n := 0
				for i := range hosts {
					n += len(r.service.Sees(fmt.Sprint("host-", i)))
				}
				return n == claims
			})
			for i := range hosts {
				r.drive(fmt.Sprint("n", i), fmt.Sprint("host-", i))
			}
			r.eventually("all claims are told", func() bool {
				for _, c := range all {
					if r.get(c); !attached(c) {
						return false
					}
				}
				return true
			})
			r.wantLoad(claims, operations, perMachine)
		})
	}
}

// wantLoad compares what was done with what may be.
func (r *rig) wantLoad(claims, operations, perMachine int) {
	r.t.Helper()
	stats := r.service.Stats()
	if stats.Operations != claims || stats.MaxOperations > operations || stats.MaxPerHost > perMachine {
		r.t.Errorf("%d operations, at most %d at once and %d on a host, want %d, %d and %d",
			stats.Operations, stats.MaxOperations, stats.MaxPerHost, claims, operations, perMachine)
	}
	events, effort, publications := r.count("kerf_fabric_events_total"), r.count("kerf_fabric_evaluations_total"), r.count("kerf_fabric_publications_total")
	r.t.Logf("%v events, %v evaluations, %v publications", events, effort, publications)
	if effort > 3*events {
		r.t.Errorf("%v situations were looked at for %v events, want at most 3 for each", effort, events)
	}
	if publications > events/3 {
		r.t.Errorf("%v publications for %v events, want several events for each", publications, events)
	}
	generations := map[int64]bool{}
	var list resourceapi.ResourceSliceList
	r.list(&list)
	for _, s := range list.Items {
		if s.Spec.Pool.Name == fabric.PoolName(r.fabric.Name) {
			generations[s.Spec.Pool.Generation] = true
		}
	}
	if len(generations) != 1 {
		r.t.Errorf("the pool has generations %v", generations)
	}
}
