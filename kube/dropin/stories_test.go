// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/kube/dropin"
)

const driver = "gpu.example.com"

// local is a slice of a pool on node n, the only one unless changed.
func local(name, pool string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("n"), Devices: devices,
			Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

func with[T any](t T, change func(T)) T {
	change(t)
	return t
}

func dev(name string, change ...func(*resourceapi.Device)) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func numa(n int64) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: &n} }
}

func draws(set, amount string, groups ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: set, Counters: map[string]resourceapi.Counter{"mem": {Value: resource.MustParse(amount)}}, CompatibilityGroups: groups,
		}}
	}
}

func counterSlice(name, pool, set, amount string) *resourceapi.ResourceSlice {
	return with(local(name, pool), func(s *resourceapi.ResourceSlice) {
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: set, Counters: map[string]resourceapi.Counter{"mem": {Value: resource.MustParse(amount)}}}}
	})
}

func shared(capacity string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		d.AllowMultipleAllocations = ptr.To(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: resource.MustParse(capacity)}}
	}
}

// one is a request for a device of the class "any".
func one(name string, change ...func(*resourceapi.ExactDeviceRequest)) resourceapi.DeviceRequest {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	for _, c := range change {
		c(e)
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: e}
}

func count(n int64) func(*resourceapi.ExactDeviceRequest) {
	return func(e *resourceapi.ExactDeviceRequest) { e.Count = n }
}

func allOf(e *resourceapi.ExactDeviceRequest) {
	e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeAll, 0
}

func where(expression string) func(*resourceapi.ExactDeviceRequest) {
	return func(e *resourceapi.ExactDeviceRequest) {
		e.Selectors = append(e.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
}

func memory(amount string) func(*resourceapi.ExactDeviceRequest) {
	return func(e *resourceapi.ExactDeviceRequest) {
		e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"mem": resource.MustParse(amount)}}
	}
}

func first(name string, alternatives ...resourceapi.DeviceRequest) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	for _, a := range alternatives {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: a.Name, DeviceClassName: a.Exactly.DeviceClassName, Selectors: a.Exactly.Selectors,
			AllocationMode: a.Exactly.AllocationMode, Count: a.Exactly.Count, Capacity: a.Exactly.Capacity,
		})
	}
	return r
}

func claimOf(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

func tied(c *resourceapi.ResourceClaim, constraints ...resourceapi.DeviceConstraint) *resourceapi.ResourceClaim {
	c.Spec.Devices.Constraints = constraints
	return c
}

func alike(requests ...string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: ptr.To[resourceapi.FullyQualifiedName](driver + "/numa")}
}

func different(requests ...string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{Requests: requests, DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName](driver + "/numa")}
}

// story is one call of Allocate for node n.
type story struct {
	name   string
	slices []*resourceapi.ResourceSlice
	taken  []string // pool/device, or pool/device/share[=memory]
	claims []*resourceapi.ResourceClaim
	// without switches features off.
	without func(*structured.Features)
	// want lists request=pool/device; nothing is nil.
	want string
	// err is a part of the error.
	err string
	// onNode: the error is about this node only.
	onNode bool
	// stock, where set, is what the stock allocator of 1.37 gives instead.
	stock string
}

var stories = slices.Concat(poolStories, choiceStories, errorStories, featureStories, settledStories)

var poolStories = []story{
	{
		name:   "pools by name, slices by name, devices as listed",
		slices: []*resourceapi.ResourceSlice{local("s2", "b", dev("x")), local("s1", "a", dev("z"), dev("y"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", count(3)))},
		want:   "r=a/z r=a/y r=b/x",
	},
	{
		name: "pools with binding conditions last",
		slices: []*resourceapi.ResourceSlice{
			local("s1", "a", dev("x", func(d *resourceapi.Device) { d.BindingConditions = []string{"Ready"} })), local("s2", "b", dev("y")),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", count(2)))},
		want:   "r=b/y r=a/x",
	},
	{
		name: "the highest generation counts",
		slices: []*resourceapi.ResourceSlice{
			local("s1", "a", dev("old")), with(local("s2", "a", dev("new")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation = 2 }),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		want:   "r=a/new",
	},
	{
		name: "out of date: the new generation has nothing for the node",
		slices: []*resourceapi.ResourceSlice{
			with(local("s1", "a", dev("old")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
			with(local("s2", "a", dev("new")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation, s.Spec.NodeName = 2, ptr.To("m") }),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
	},
	{
		name: "an incomplete pool is passed over",
		slices: []*resourceapi.ResourceSlice{
			with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }), local("s2", "b", dev("y")),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		want:   "r=b/y",
	},
	{
		name: "a pool is complete with slices for other nodes",
		slices: []*resourceapi.ResourceSlice{
			with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
			with(local("s2", "a", dev("y")), func(s *resourceapi.ResourceSlice) {
				s.Spec.Pool.ResourceSliceCount, s.Spec.NodeName = 2, ptr.To("m")
			}),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
		want:   "r=a/x",
	},
	{
		name:   "an invalid pool is the reason where nothing else helps",
		slices: []*resourceapi.ResourceSlice{local("s1", "a", dev("x"), dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		err:    "invalid resource pools were encountered", onNode: true,
	},
	{
		name:   "an invalid pool does not matter where another helps",
		slices: []*resourceapi.ResourceSlice{local("s1", "a", dev("x", draws("none", "1"))), local("s2", "b", dev("y"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		want:   "r=b/y",
	},
	{
		name: "all needs to know all pools: one is being updated",
		slices: []*resourceapi.ResourceSlice{
			with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }), local("s2", "b", dev("y")),
		},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
		err:    "claim ns/c, request r: asks for all devices, but resource pool gpu.example.com/a is currently being updated",
	},
	{
		name:   "all needs to know all pools: one is invalid",
		slices: []*resourceapi.ResourceSlice{local("s1", "a", dev("x"), dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
		err:    "claim ns/c, request r: asks for all devices, but resource pool gpu.example.com/a is currently invalid",
	},
	{
		name: "a broken node selector is an error",
		slices: []*resourceapi.ResourceSlice{with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) {
			s.Spec.NodeName = nil
			s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "k", Operator: "Near"}}}}}
		})},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		err:    "gather pool information: failed to perform node selection for slice s1",
	},
	{
		name: "counters of a pool are shared, a share pays once, what left the pool holds nothing",
		slices: []*resourceapi.ResourceSlice{
			with(counterSlice("s1", "a", "set", "2"), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
			with(local("s2", "a", dev("x", draws("set", "1"), shared("4")), dev("y", draws("set", "1")), dev("z", draws("set", "1"))),
				func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
		},
		taken:  []string{"a/x/share", "a/gone"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"), one("q", memory("3")))},
		want:   "r=a/y q=a/x",
	},
	{
		name: "a counter below zero closes the pool's counters",
		slices: []*resourceapi.ResourceSlice{
			with(counterSlice("s1", "a", "set", "1"), func(s *resourceapi.ResourceSlice) {
				s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{Name: "other", Counters: map[string]resourceapi.Counter{"mem": {Value: resource.MustParse("9")}}})
				s.Spec.Pool.ResourceSliceCount = 2
			}),
			with(local("s2", "a", dev("x", draws("set", "2")), dev("y", draws("other", "1")), dev("z")),
				func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
		},
		taken:  []string{"a/x"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		want:   "r=a/z",
	},
}

var choiceStories = []story{
	{
		name:   "the first solution in listed order, not the first devices",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(0)), dev("y", numa(1)), dev("z", numa(1)))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), alike())},
		want:   "r=a/y r=a/z",
	},
	{
		name:   "the first alternative that goes with what comes after it",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(0)), dev("y", numa(1)))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(first("r", one("many", count(2)), one("few")), one("q")), different())},
		want:   "r/few=a/x q=a/y",
	},
	{
		name:   "an earlier request gives way",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(0)), dev("y"))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r"), one("q")), alike("q"))},
		want:   "r=a/y q=a/x",
	},
	{
		name:   "admin access takes what is taken, and keeps it from others",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		taken:  []string{"a/x"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }), one("q"))},
		want:   "r=a/x q=a/y",
	},
	{
		name:   "all fails with one that is taken",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		taken:  []string{"a/y"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
	},
	{
		name:   "all of nothing is nothing",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf, where("false")))},
	},
	{
		name:   "shares of a device add up to its capacity",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4")), dev("y", shared("4")))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("3")), one("q", memory("2")), one("p", memory("1")))},
		want:   "r=a/x q=a/y p=a/x",
	},
	{
		name:   "several claims do not share a device",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r")), claimOf(one("q"))},
		want:   "r=a/x q=a/y",
	},
	{
		name:   "a request for no devices",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(0)), dev("y", numa(1)))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("q", count(0)), one("r", count(2))), different(), alike("q"))},
		want:   "r=a/x r=a/y",
	},
	{
		name:   "a claim without requests",
		claims: []*resourceapi.ResourceClaim{claimOf(), claimOf()},
		want:   "",
	},
	{
		name:   "no claims, no devices, no error",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		want:   "(empty)",
	},
}

var errorStories = []story{
	{
		name:   "a selector that fails on a device that is looked at",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where(`device.attributes["gpu.example.com"].numa == 1`)))},
		err:    "claim ns/c: selector #0 on device gpu.example.com/a/x: CEL runtime error: no such key: numa",
	},
	{
		name:   "a selector that fails on a device that nobody looks at",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(1)), dev("y"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where(`device.attributes["gpu.example.com"].numa == 1`)))},
		want:   "r=a/x",
	},
	{
		name:   "a selector that fails on a device that is taken",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y", numa(1)))},
		taken:  []string{"a/x"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where(`device.attributes["gpu.example.com"].numa == 1`)))},
		want:   "r=a/y",
	},
	{
		name:   "a selector that fails after the first request has no devices",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("q", where("false")), one("r", where(`device.attributes["gpu.example.com"].numa == 1`)))},
	},
	{
		name:   "a selector that does not compile, on the first device",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where("device.nothing")))},
		err:    "claim ns/c: selector #0: CEL compile error",
	},
	{
		name:   "a selector that does not compile, without devices",
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where("device.nothing")))},
	},
	{
		name:   "a class that fails",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) { e.DeviceClassName = "picky" }))},
		err:    "class picky: selector #0 on device gpu.example.com/a/x: CEL runtime error: no such key: numa",
	},
	{
		name:   "a class that is not there",
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) { e.DeviceClassName = "missing" }))},
		err:    "claim ns/c, request r: could not retrieve device class missing: device class missing not found",
	},
	{
		name:   "more devices than a claim may have",
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", count(20)), one("q", count(13)))},
		err:    "claim ns/c, request q: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for",
	},
	{
		name:   "far more devices than a claim may have",
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", count(20)), one("q", count(math.MaxInt64)))},
		err:    "claim ns/c, request q: adding 9223372036854775807 devices exceeds the claim limit of 32, with 20 already accounted for",
	},
	{
		name:   "all devices, one of which a constraint keeps out",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", numa(0)), dev("y", numa(1)))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", allOf)), alike())},
		err:    "claim ns/c, request r: cannot add device gpu.example.com/a/y because a claim constraint would not be satisfied",
	},
	{
		name:   "a derived attribute that fails",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) {
			e.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: driver + "/numa", Expression: `device.attributes["gpu.example.com"].other`}}
		})), alike())},
		err: "evaluate derived attribute gpu.example.com/numa on device gpu.example.com/a/x failed: no such key: other",
	},
	{
		name: "a capacity below zero",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", func(d *resourceapi.Device) {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: resource.MustParse("-1")}}
		}))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		err:    `claim ns/c, request r: checking capacity for device gpu.example.com/a/x: capacity "mem": capacity value is negative`,
	},
	{
		name:   "a constraint of an unknown kind",
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r")), resourceapi.DeviceConstraint{})},
		err:    "claim ns/c, constraint #0: empty constraint (unsupported constraint type?)",
	},
	{
		name: "a node selector of two terms",
		slices: []*resourceapi.ResourceSlice{with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) {
			term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}}}
			s.Spec.NodeName, s.Spec.NodeSelector = nil, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term, term}}
		})},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		err:    "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms",
	},
}

var featureStories = []story{
	{
		name:    "AdminAccess off",
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = ptr.To(false) }))},
		without: func(f *structured.Features) { f.AdminAccess = false },
		err:     "claim ns/c, request r: admin access is requested, but the feature is disabled",
	},
	{
		name:    "PrioritizedList off",
		claims:  []*resourceapi.ResourceClaim{claimOf(first("r", one("s")))},
		without: func(f *structured.Features) { f.PrioritizedList = false },
		err:     "claim ns/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
	},
	{
		name:    "ConsumableCapacity off: a request for capacity",
		claims:  []*resourceapi.ResourceClaim{claimOf(first("r", one("s", memory("1"))))},
		without: func(f *structured.Features) { f.ConsumableCapacity = false },
		err:     "claim ns/c, subrequest s: has capacity requests, but the DRAConsumableCapacity feature is disabled",
	},
	{
		name:    "ConsumableCapacity off: devices are not shared",
		slices:  []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4")))},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"), one("q"))},
		without: func(f *structured.Features) { f.ConsumableCapacity = false },
	},
	{
		name: "DerivedAttributes off",
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) {
			e.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "x/y", Expression: "1"}}
		}))},
		without: func(f *structured.Features) { f.DerivedAttributes = false },
		err:     "claim ns/c, request r: cannot handle request with derived attributes, the feature is disabled",
	},
	{
		name: "DeviceBindingAndStatus off",
		slices: []*resourceapi.ResourceSlice{
			local("s", "a", dev("x", func(d *resourceapi.Device) { d.BindingConditions = []string{"Ready"} }), dev("y")),
		},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
		without: func(f *structured.Features) { f.DeviceBindingAndStatus = false },
		want:    "r=a/y",
	},
	{
		name: "DeviceTaints off",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", func(d *resourceapi.Device) {
			d.Taints = []resourceapi.DeviceTaint{{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}))},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"))},
		without: func(f *structured.Features) { f.DeviceTaints = false },
		want:    "r=a/x",
	},
	{
		name: "ListTypeAttributes off: a list stays alone",
		slices: []*resourceapi.ResourceSlice{local("s", "a",
			dev("x", func(d *resourceapi.Device) {
				d.Attributes["numa"] = resourceapi.DeviceAttribute{IntValues: []int64{0, 1}}
			}), dev("y", numa(1)), dev("z", numa(1)))},
		claims:  []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), alike())},
		without: func(f *structured.Features) { f.ListTypeAttributes = false },
		want:    "r=a/y r=a/z",
	},
	{
		name: "OptionalNodeOperations off",
		slices: []*resourceapi.ResourceSlice{
			with(local("s1", "a", dev("x")), func(s *resourceapi.ResourceSlice) {
				s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"All"}
			}),
			local("s2", "b", dev("y")),
		},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"))},
		without: func(f *structured.Features) { f.OptionalNodeOperations = false },
		want:    "r=b/y",
	},
	{
		name: "PartitionableDevices off",
		slices: []*resourceapi.ResourceSlice{
			counterSlice("s1", "a", "set", "1"), local("s2", "b", dev("x", draws("set", "1")), dev("y")),
		},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"))},
		without: func(f *structured.Features) { f.PartitionableDevices = false },
		want:    "r=b/y",
	},
	{
		name: "CompatibilityGroups off: a slice with groups is as good as missing",
		slices: []*resourceapi.ResourceSlice{
			with(counterSlice("s1", "a", "set", "1"), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
			with(local("s2", "a", dev("x", draws("set", "1", "g"))), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }),
		},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"))},
		without: func(f *structured.Features) { f.CompatibilityGroups = false },
	},
}

// settledStories are about what Kubernetes 1.37 leaves open and 1.38 settles.
var settledStories = []story{
	{
		name:   "versions that differ in build metadata alone are equal",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", version("1.0.0+a")), dev("y", version("1.0.0-rc.1+b")), dev("z", version("1.0.0+b")))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), alike())},
		want:   "r=a/x r=a/z",
		stock:  "nothing",
	},
	{
		name:   "versions that differ in build metadata alone are not distinct",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", version("1.0.0+a")), dev("y", version("1.0.0+b")), dev("z", version("1.0.0-rc.1+a")))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), different())},
		want:   "r=a/x r=a/z",
		stock:  "r=a/x r=a/y",
	},
	{
		name: "lists with versions that differ in build metadata alone are alike",
		slices: []*resourceapi.ResourceSlice{local("s", "a",
			dev("x", version("2.0.0", "1.0.0+a")), dev("y", version("3.0.0", "3.0.0+b")), dev("z", version("1.0.0+b", "4.0.0")))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), alike())},
		want:   "r=a/x r=a/z",
		stock:  "nothing",
	},
	{
		name: "lists with versions that differ in build metadata alone are not distinct",
		slices: []*resourceapi.ResourceSlice{local("s", "a",
			dev("x", version("2.0.0", "1.0.0+a")), dev("y", version("1.0.0+b", "4.0.0")), dev("z", version("3.0.0+a", "3.0.0+b")))},
		claims: []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), different())},
		want:   "r=a/x r=a/z",
		stock:  "r=a/x r=a/y",
	},
	{
		name:    "ListTypeAttributes off: versions that differ in build metadata alone",
		slices:  []*resourceapi.ResourceSlice{local("s", "a", dev("x", version("1.0.0+a")), dev("y", version("2.0.0+a")), dev("z", version("1.0.0+b")))},
		claims:  []*resourceapi.ResourceClaim{tied(claimOf(one("r", count(2))), alike())},
		without: func(f *structured.Features) { f.ListTypeAttributes = false },
		want:    "r=a/x r=a/z",
		stock:   "nothing",
	},
	{
		name:   "a device that is shared no more and of which there is a share: the next is taken",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		taken:  []string{"a/x/share"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r"))},
		want:   "r=a/y",
		stock:  "r=a/x",
	},
	{
		name:   "a device that is shared no more and of which there is room for the request",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4"), whole), dev("y", shared("4")))},
		taken:  []string{"a/x/share=1"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("1")))},
		want:   "r=a/y",
		stock:  "r=a/x",
	},
	{
		name:   "a device that is shared no more and of which nothing but what is consumed is known",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4"), whole), dev("y", shared("4")))},
		taken:  []string{"a/x/=1"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("1")))},
		want:   "r=a/y",
		stock:  "r=a/x",
	},
	{
		name:   "all devices, one of which is shared no more and has shares",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		taken:  []string{"a/y/share"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", allOf))},
		stock:  "r=a/x r=a/y",
	},
	{
		name:   "admin access to a device that is shared no more and has shares",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))},
		taken:  []string{"a/x/share"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }))},
		want:   "r=a/x",
	},
	{
		name:   "a selector that fails on a device that is shared no more and has shares",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y", numa(1)))},
		taken:  []string{"a/x/share"},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", where(`device.attributes["gpu.example.com"].numa == 1`)))},
		err:    "claim ns/c: selector #0 on device gpu.example.com/a/x: CEL runtime error: no such key: numa",
	},
	{
		name:    "ConsumableCapacity off: a device of which there are shares",
		slices:  []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4")), dev("y"))},
		taken:   []string{"a/x/share"},
		claims:  []*resourceapi.ResourceClaim{claimOf(one("r"))},
		without: func(f *structured.Features) { f.ConsumableCapacity = false },
		want:    "r=a/y",
		stock:   "r=a/x",
	},
	{
		name:   "a negative amount",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4")))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("-5")))},
		err:    `claim ns/c, request r: checking capacity for device gpu.example.com/a/x: capacity "mem": capacity value is negative`,
	},
	{
		name:   "a negative amount that a range would round up",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4"), least("2")))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("-5")))},
		err:    `claim ns/c, request r: checking capacity for device gpu.example.com/a/x: capacity "mem": capacity value is negative: request -5`,
		stock:  "r=a/x",
	},
	{
		name:   "a negative amount that valid values would round up, of an alternative",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x", shared("4"), valid("2", "3")))},
		claims: []*resourceapi.ResourceClaim{claimOf(first("r", one("many", count(2), where("false")), one("little", memory("-1n"))))},
		err:    `claim ns/c, request little: checking capacity for device gpu.example.com/a/x: capacity "mem": capacity value is negative: request -1n`,
		stock:  "r/little=a/x",
	},
	{
		name:   "a negative amount of what no device has",
		slices: []*resourceapi.ResourceSlice{local("s", "a", dev("x"))},
		claims: []*resourceapi.ResourceClaim{claimOf(one("r", memory("-5")))},
	},
}

// version is one version in place of the number numa, or several.
func version(of ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		a := resourceapi.DeviceAttribute{VersionValues: of}
		if len(of) == 1 {
			a = resourceapi.DeviceAttribute{VersionValue: &of[0]}
		}
		d.Attributes["numa"] = a
	}
}

// whole has a device be one that cannot be shared.
func whole(d *resourceapi.Device) { d.AllowMultipleAllocations = nil }

func least(amount string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		memory := d.Capacity["mem"]
		q := resource.MustParse(amount)
		memory.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: &q, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &q}}
		d.Capacity["mem"] = memory
	}
}

func valid(amounts ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		memory := d.Capacity["mem"]
		memory.RequestPolicy = &resourceapi.CapacityRequestPolicy{}
		for _, amount := range amounts {
			memory.RequestPolicy.ValidValues = append(memory.RequestPolicy.ValidValues, resource.MustParse(amount))
		}
		memory.RequestPolicy.Default = &memory.RequestPolicy.ValidValues[0]
		d.Capacity["mem"] = memory
	}
}

// TestStories tells every story to the stock allocator, too.
func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			s.tell(t, dropin.NewAllocator)
			switch s.stock {
			case "":
			case "nothing":
				s.want, s.err = "", ""
			default:
				s.want, s.err = s.stock, ""
			}
			s.tell(t, structured.NewAllocator)
		})
	}
}

type constructor func(context.Context, structured.Features, structured.AllocatedState, structured.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (structured.Allocator, error)

func (s *story) tell(t *testing.T, construct constructor) {
	t.Helper()
	features := allFeatures
	if s.without != nil {
		s.without(&features)
	}
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	allocator, err := construct(t.Context(), features, stateOf(s.taken), someClasses, s.slices, cache)
	if err != nil {
		t.Fatal(err)
	}
	got, err := allocator.Allocate(t.Context(), nodeN, s.claims)
	if (err != nil) != (s.err != "") || err != nil && !strings.Contains(err.Error(), s.err) {
		t.Fatalf("%T: error %v, want %q", allocator, err, s.err)
	}
	if onNode := errors.Is(err, structured.ErrFailedAllocationOnNode); onNode != s.onNode {
		t.Errorf("%T: about this node only: %t, want %t", allocator, onNode, s.onNode)
	}
	if diff := cmp.Diff(s.want, summary(got)); diff != "" {
		t.Errorf("%T (-want +got):\n%s", allocator, diff)
	}
}

var (
	nodeN       = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	someClasses = classes{
		{ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "picky"}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].numa == 1`}},
		}}},
	}
)

func stateOf(taken []string) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, name := range taken {
		parts := strings.Split(name, "/")
		id := structured.MakeDeviceID(driver, parts[0], parts[1])
		if len(parts) < 3 {
			state.AllocatedDevices.Insert(id)
			continue
		}
		share, consumed, counted := strings.Cut(parts[2], "=")
		if share != "" {
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, ptr.To(types.UID(share))))
		}
		if counted {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, map[resourceapi.QualifiedName]resource.Quantity{"mem": resource.MustParse(consumed)}))
		}
	}
	return state
}

func summary(results []resourceapi.AllocationResult) string {
	if results != nil && len(results) == 0 {
		return "(empty)"
	}
	var all []string
	for i := range results {
		for _, r := range results[i].Devices.Results {
			all = append(all, fmt.Sprintf("%s=%s/%s", r.Request, r.Pool, r.Device))
		}
	}
	return strings.Join(all, " ")
}
