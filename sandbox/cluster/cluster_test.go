// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// readState reads a state from YAML, by the names of its fields.
func readState(t *testing.T, text string) *State {
	t.Helper()
	state := &State{}
	if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1024).Decode(state); err != nil {
		t.Fatal(err)
	}
	return New(&state.Objects, state.Workloads)
}

// queue is a scheduler with these pods, by UID.
func queue(pods map[string]Place) Queue {
	q := Queue{Running: true, Profiles: map[string]bool{"default-scheduler": true}, Pods: map[types.UID]Place{}}
	for uid, entry := range pods {
		q.Pods[types.UID(uid)] = entry
	}
	return q
}

const unboundPod = `
Pods:
- metadata: {name: a, namespace: ns, uid: a}
  spec: {schedulerName: default-scheduler}
  status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: no room}]}
`

const groupedPod = `
Pods:
- metadata: {name: a, namespace: ns, uid: a}
  spec: {schedulerName: default-scheduler, schedulingGroup: {podGroupName: g}}
PodGroups: [{metadata: {name: g, namespace: ns}, spec: {schedulingPolicy: {gang: {minCount: 1}}}}]
`

const claimedPod = `
Pods:
- metadata: {name: a, namespace: ns, uid: a}
  spec: {nodeName: n1, resourceClaims: [{name: gpu, resourceClaimName: c}]}
  status: {phase: Running}
ResourceClaims:
- metadata: {name: c, namespace: ns}
  status:
    reservedFor: [{resource: pods, name: a, uid: a}]
    allocation: {devices: {results: [{request: r, driver: d, pool: p, device: x}]}}
`

func TestFindMotions(t *testing.T) {
	for _, test := range []struct {
		name, state string
		queue       Queue
		want        []string
	}{
		{"nothing", "Pods: []", queue(nil), nil},
		{"waits", unboundPod, queue(map[string]Place{"a": Parked}), nil},
		{"in the queue", unboundPod, queue(map[string]Place{"a": Active}), []string{"pods/a in namespace ns: is being scheduled"}},
		{"tried", unboundPod, queue(map[string]Place{"a": Trying}), []string{"pods/a in namespace ns: the scheduler is still computing where it could go"}},
		{"no node", unboundPod, queue(map[string]Place{"a": BackingOff}), []string{"pods/a in namespace ns: is tried again and again"}},
		{"backs off", "Nodes: [{}]\n" + unboundPod, queue(map[string]Place{"a": BackingOff}), []string{"pods/a in namespace ns: is about to be tried again"}},
		{"not in the queue", unboundPod, queue(nil), []string{"pods/a in namespace ns: is being scheduled or bound"}},
		{"no scheduler", unboundPod, Queue{}, nil},
		{"no verdict", strings.ReplaceAll(unboundPod, "PodScheduled", "Other"), queue(map[string]Place{"a": Parked}),
			[]string{"pods/a in namespace ns: has no PodScheduled condition yet"}},
		{"group in the queue", groupedPod, queue(map[string]Place{"a": BackingOff}), []string{"pods/a in namespace ns: is tried again and again"}},
		{"incomplete group", strings.ReplaceAll(groupedPod, "minCount: 1", "minCount: 2"), queue(map[string]Place{"a": Parked}), nil},
		{"missing group", strings.ReplaceAll(groupedPod, "PodGroups: [{metadata: {name: g", "PodGroups: [{metadata: {name: h"), queue(map[string]Place{"a": Parked}), nil},
		{"not started", "Pods: [{metadata: {name: a, namespace: ns}, spec: {nodeName: n1}, status: {phase: Pending}}]", queue(nil),
			[]string{"pods/a in namespace ns: has not started on node n1"}},
		{"limited", `Pods: [{metadata: {name: a, namespace: ns, annotations: {kerf.dev/run-for: 1s}}, spec: {nodeName: n1}, status: {phase: Running}}]`, queue(nil),
			[]string{"pods/a in namespace ns: runs for a limited time"}},
		{"deleted", `Pods: [{metadata: {name: a, namespace: ns, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {nodeName: n1}, status: {phase: Running}}]`, queue(nil),
			[]string{"pods/a in namespace ns: is being deleted"}},
		{"claim in use", claimedPod, queue(nil), nil},
		{"claim of a finished pod", strings.ReplaceAll(claimedPod, "Running", "Succeeded"), queue(nil), []string{"resourceclaims/c in namespace ns: is to be released by pod a"}},
		{"claim of another pod", strings.ReplaceAll(claimedPod, "name: a, uid: a", "name: a, uid: old"), queue(nil), []string{"resourceclaims/c in namespace ns: is to be released by pod a"}},
		{"claim made for a finished pod", `
Pods: [{metadata: {name: a, namespace: ns, uid: a}, status: {phase: Succeeded}}]
ResourceClaims: [{metadata: {name: c, namespace: ns, ownerReferences: [{kind: Pod, name: a, uid: a, controller: true}]}}]`, queue(nil),
			[]string{"resourceclaims/c in namespace ns: is to be deleted, pod a has ended"}},
		{"eviction", claimedPod + "DeviceTaintRules: [{spec: {deviceSelector: {driver: d}, taint: {key: k, effect: NoExecute}}}]", queue(nil),
			[]string{"pods/a in namespace ns: is to be evicted from device d/p/x"}},
		{"other device", claimedPod + "DeviceTaintRules: [{spec: {deviceSelector: {driver: d, device: z}, taint: {key: k, effect: NoExecute}}}]", queue(nil), nil},
		{"no selector", claimedPod + "DeviceTaintRules: [{spec: {taint: {key: k, effect: NoExecute}}}]", queue(nil), nil},
		{"other effect", claimedPod + "DeviceTaintRules: [{spec: {deviceSelector: {}, taint: {key: k, effect: NoSchedule}}}]", queue(nil), nil},
		{"device taint", claimedPod + "ResourceSlices: [{spec: {driver: d, pool: {name: p}, devices: [{name: x, taints: [{key: k, effect: NoExecute}]}]}}]", queue(nil),
			[]string{"pods/a in namespace ns: is to be evicted from device d/p/x"}},
		{"tolerated", strings.ReplaceAll(claimedPod, "device: x", "device: x, tolerations: [{operator: Exists}]") +
			"DeviceTaintRules: [{spec: {deviceSelector: {}, taint: {key: k, effect: NoExecute}}}]", queue(nil), nil},
		{"template", `
Pods: [{metadata: {name: a, namespace: ns, uid: a}, spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: t}]}}]
ResourceClaimTemplates: [{metadata: {name: t, namespace: ns}}]
`, queue(nil), []string{"pods/a in namespace ns: has no claim from ResourceClaimTemplate t yet"}},
		{"left over", "Pods: [{metadata: {name: a, namespace: ns, ownerReferences: [{kind: ReplicaSet, name: r, uid: r, controller: true}]}, status: {phase: Running}, spec: {nodeName: n1}}]", queue(nil),
			[]string{"pods/a in namespace ns: is left over from ReplicaSet r, which is gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectMotions(t, readState(t, test.state), test.queue, test.want)
		})
	}
}

func TestWorkloadMotions(t *testing.T) {
	const pods = `
Pods:
- metadata: {name: a, namespace: ns, ownerReferences: [{kind: Owner, name: o, uid: o, controller: true}]}
  spec: {nodeName: n1}
  status: {phase: Running}
`
	for _, test := range []struct {
		name, state string
		want        []string
	}{
		{"unobserved", "Deployments: [{metadata: {name: d, namespace: ns, generation: 2}, status: {observedGeneration: 1}}]",
			[]string{"deployments/d in namespace ns: was changed and its controller has not seen it"}},
		{"rolls out", "Deployments: [{metadata: {name: d, namespace: ns}, spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 1}}]",
			[]string{"deployments/d in namespace ns: rolls out: 2 of 2 replicas, 1 up to date"}},
		{"rolled out", "Deployments: [{metadata: {name: d, namespace: ns}, spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 2}}]", nil},
		{"replicas", pods + "ReplicaSets: [{metadata: {name: r, namespace: ns, uid: o}, spec: {replicas: 1}}]", nil},
		{"too few replicas", pods + `ReplicaSets: [{metadata: {name: r, namespace: ns, uid: o}, spec: {replicas: 2},
  status: {conditions: [{type: ReplicaFailure, status: "True", message: quota}]}}]`,
			[]string{"replicasets/r in namespace ns: has 1 of 2 pods: quota"}},
		{"stateful set", pods + "StatefulSets: [{metadata: {name: s, namespace: ns, uid: o}, spec: {replicas: 2}}]",
			[]string{"statefulsets/s in namespace ns: has 1 of 2 pods"}},
		{"stateful set that waits", strings.ReplaceAll(pods, "Running", "Pending") + "StatefulSets: [{metadata: {name: s, namespace: ns, uid: o}, spec: {replicas: 2}}]",
			[]string{"pods/a in namespace ns: has not started on node n1"}},
		{"daemon set", pods + "DaemonSets: [{metadata: {name: d, namespace: ns, uid: o}, status: {desiredNumberScheduled: 1}}]", nil},
		{"daemon set on a new node", pods + "DaemonSets: [{metadata: {name: d, namespace: ns, uid: o}, status: {desiredNumberScheduled: 2}}]",
			[]string{"daemonsets/d in namespace ns: has 1 of 2 pods"}},
		{"job", pods + "Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 1, parallelism: 1}, status: {active: 1}}]", nil},
		{"job with more to do", pods + "Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 3, parallelism: 2}, status: {active: 1}}]",
			[]string{"jobs/j in namespace ns: has 1 of 2 pods"}},
		{"uncounted", pods + "Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 1}}]",
			[]string{"jobs/j in namespace ns: has 1 active pods and its controller has not counted them"}},
		{"job at its end", "Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 1}, status: {succeeded: 1}}]",
			[]string{"jobs/j in namespace ns: is about to complete"}},
		{"complete job", `Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 1}, status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}}]`, nil},
		{"suspended job", "Jobs: [{metadata: {name: j, namespace: ns, uid: o}, spec: {completions: 1, suspend: true}}]", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectMotions(t, readState(t, test.state), queue(nil), test.want)
		})
	}
}

func expectMotions(t *testing.T, state *State, queue Queue, want []string) {
	t.Helper()
	var got []string
	for _, motion := range FindMotions(state, queue) {
		got = append(got, motion.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("motions (-want +got):\n%s", diff)
	}
}

func TestFindPending(t *testing.T) {
	const conditions = `
Pods:
- metadata: {name: a, namespace: ns, uid: a}
  spec: {schedulerName: default-scheduler, resourceClaims: [{name: gpu, resourceClaimName: c}]}
ResourceClaims:
- metadata: {name: c, namespace: ns}
  status:
    allocation: {devices: {results: [{request: r, driver: d, pool: p, device: x, bindingConditions: [attached]}]}}
`
	special := strings.Replace(conditions, ", resourceClaims: [{name: gpu, resourceClaimName: c}]}", `}
  status: {extendedResourceClaimStatus: {resourceClaimName: c}}`, 1)
	for _, test := range []struct {
		name, state  string
		queue        Queue
		want, reason string
	}{
		{"verdict", unboundPod, queue(map[string]Place{"a": Parked}), "no room", "Unschedulable"},
		{"tried again", unboundPod, queue(map[string]Place{"a": Trying}), "the scheduler is still computing where it could go", ReasonScheduling},
		{"stopped", unboundPod, Queue{}, "the scheduler is stopped", ReasonNoScheduler},
		{"other scheduler", strings.ReplaceAll(unboundPod, "default-scheduler", "other"), queue(nil), `no scheduler is called "other" (spec.schedulerName)`, ReasonNoScheduler},
		{"gated", strings.ReplaceAll(unboundPod, "schedulerName", "schedulingGates: [{name: g}, {name: h}], schedulerName"), queue(nil),
			"waits for the removal of scheduling gates: g, h", ReasonSchedulingGated},
		{"no claim", strings.ReplaceAll(unboundPod, "schedulerName", "resourceClaims: [{name: x, resourceClaimName: c}], schedulerName"), queue(nil),
			"ResourceClaim ns/c does not exist (spec.resourceClaims[0].resourceClaimName)", ReasonMissingObject},
		{"no template", strings.ReplaceAll(unboundPod, "schedulerName", "resourceClaims: [{name: x, resourceClaimTemplateName: t}], schedulerName"), queue(nil),
			"ResourceClaimTemplate ns/t does not exist (spec.resourceClaims[0].resourceClaimTemplateName)", ReasonMissingObject},
		{"no group", strings.ReplaceAll(unboundPod, "schedulerName", "schedulingGroup: {podGroupName: g}, schedulerName"), queue(nil),
			"PodGroup ns/g does not exist (spec.schedulingGroup.podGroupName)", ReasonMissingObject},
		{"incomplete group", strings.ReplaceAll(groupedPod, "minCount: 1", "minCount: 2"), queue(nil),
			"PodGroup ns/g needs 2 pods (spec.schedulingPolicy.gang.minCount) and has 1", ReasonIncompleteGroup},
		{"binding conditions", conditions, queue(nil), "waits for condition attached of device d/p/x (claim gpu)", ReasonBindingConditions},
		{"binding conditions of extended resources", special, queue(nil), "waits for condition attached of device d/p/x (extended resources)", ReasonBindingConditions},
		{"met conditions", conditions + `    devices: [{driver: d, pool: p, device: x, conditions: [{type: attached, status: "True"}]}]`, queue(nil),
			"the scheduler has no verdict yet", ReasonScheduling},
	} {
		t.Run(test.name, func(t *testing.T) {
			pending := FindPending(readState(t, test.state), test.queue)
			if len(pending) != 1 {
				t.Fatalf("pending = %+v, want one", pending)
			}
			if pending[0].Reason != test.reason || pending[0].Message != test.want {
				t.Errorf("got %s: %s\nwant %s: %s", pending[0].Reason, pending[0].Message, test.reason, test.want)
			}
		})
	}
}
