// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/sandbox/cluster"
)

// Identity of the schema.
const (
	APIVersion = "kerf.dev/v1alpha1"
	Kind       = "SandboxReport"
)

// Report is the result of a run; see the package documentation for its schema.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Summary    Summary `json:"summary"`
	Pods       []Pod   `json:"pods"`
	// UnusablePools are the pools from which nothing can be allocated, and why.
	UnusablePools []string `json:"unusablePools,omitempty"`
	// Notes say what is likely to be missing.
	Notes      []string    `json:"notes,omitempty"`
	Unfinished []Motion    `json:"unfinished,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
	Stats      *Stats      `json:"stats,omitempty"`
}

// Summary counts pods.
type Summary struct {
	Placed  int `json:"placed"`
	Pending int `json:"pending"`
}

// Pod is where a pod is, or why it is nowhere.
type Pod struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Phase     corev1.PodPhase `json:"phase"`
	Node      string          `json:"node"`
	Claims    []Claim         `json:"claims,omitempty"`
	Pending   *Pending        `json:"pending,omitempty"`
}

// Pending is why a pod has no node.
type Pending struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Warnings are events about the pod that say more.
	Warnings []string `json:"warnings,omitempty"`
}

// Claim is a ResourceClaim of a pod.
type Claim struct {
	Name          string   `json:"name"`
	ResourceClaim string   `json:"resourceClaim"`
	Devices       []Device `json:"devices,omitempty"`
}

// Device is one device of an allocation.
type Device struct {
	Request string `json:"request"`
	// Resource and Containers are what a device of the claim for extended resources
	// is for.
	Resource         string            `json:"resource,omitempty"`
	Containers       []string          `json:"containers,omitempty"`
	Driver           string            `json:"driver"`
	Pool             string            `json:"pool"`
	Device           string            `json:"device"`
	ShareID          string            `json:"shareID,omitempty"`
	AdminAccess      bool              `json:"adminAccess,omitempty"`
	ConsumedCapacity map[string]string `json:"consumedCapacity,omitempty"`
}

// Motion is a change that was expected and did not come.
type Motion struct {
	Object string `json:"object"`
	What   string `json:"what"`
}

// String is for a person.
func (m Motion) String() string { return m.Object + ": " + m.What }

// Violation is an allocation that breaks a rule of the API.
type Violation struct {
	Object  string `json:"object"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// String is for a person.
func (v Violation) String() string { return v.Object + ": " + v.Field + ": " + v.Problem }

// Stats are measurements of the run.
type Stats struct {
	SecondsToReady         float64 `json:"secondsToReady"`
	SecondsToFirstPodBound float64 `json:"secondsToFirstPodBound,omitempty"`
	SecondsTotal           float64 `json:"secondsTotal"`
	// MaxResidentBytes is the most memory that the process has had in use.
	MaxResidentBytes int64 `json:"maxResidentBytes"`
}

// Input is what a report is made of.
type Input struct {
	State   *cluster.State
	Pending []cluster.Pending
	// Warnings are events by the pod's UID, see cluster.ReadWarnings.
	Warnings map[types.UID][]string
	// UnusablePools are pools from which nothing can be allocated, and why.
	UnusablePools []string
	// Notes say what is likely to be missing.
	Notes []string
	// Unfinished are changes that were expected and did not come.
	Unfinished []cluster.Motion
	Violations []alloc.Violation
}

// New makes a report.
func New(in Input) *Report {
	r := &Report{APIVersion: APIVersion, Kind: Kind, Pods: []Pod{}, UnusablePools: in.UnusablePools, Notes: in.Notes}
	why := map[types.UID]*Pending{}
	for _, p := range in.Pending {
		why[p.Pod.UID] = &Pending{Reason: p.Reason, Message: p.Message, Warnings: in.Warnings[p.Pod.UID]}
	}
	for _, pod := range in.State.Pods {
		entry := Pod{
			Namespace: pod.Namespace,
			Name:      pod.Name,
			Phase:     pod.Status.Phase,
			Node:      pod.Spec.NodeName,
			Claims:    claims(in.State, pod),
			Pending:   why[pod.UID],
		}
		if entry.Node != "" {
			r.Summary.Placed++
		} else {
			r.Summary.Pending++
		}
		r.Pods = append(r.Pods, entry)
	}
	slices.SortFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), naturalCompare(a.Name, b.Name))
	})
	for _, motion := range in.Unfinished {
		r.Unfinished = append(r.Unfinished, Motion{Object: motion.Object, What: motion.What})
	}
	for _, violation := range in.Violations {
		r.Violations = append(r.Violations, Violation(violation))
	}
	return r
}

// Complete reports whether every pod has a node and nothing is unfinished.
func (r *Report) Complete() bool {
	return r.Summary.Pending == 0 && len(r.Unfinished) == 0
}

func claims(state *cluster.State, pod *corev1.Pod) []Claim {
	var list []Claim
	for ref, claim := range state.PodClaims(pod) {
		entry := Claim{Name: ref.Name()}
		if claim != nil {
			entry.ResourceClaim = claim.Name
			if claim.Status.Allocation != nil {
				entry.Devices = devices(pod, claim)
			}
		}
		list = append(list, entry)
	}
	return list
}

// devices are those of an allocated claim of the pod.
func devices(pod *corev1.Pod, c *resourceapi.ResourceClaim) []Device {
	results := c.Status.Allocation.Devices.Results
	list := make([]Device, len(results))
	for i, result := range results {
		purpose := claim.PurposeOf(pod, c, result.Request)
		list[i] = Device{
			Request:     result.Request,
			Resource:    purpose.Resource,
			Containers:  purpose.Containers,
			Driver:      result.Driver,
			Pool:        result.Pool,
			Device:      result.Device,
			ShareID:     string(ptr.Deref(result.ShareID, "")),
			AdminAccess: ptr.Deref(result.AdminAccess, false),
		}
		for name, quantity := range result.ConsumedCapacity {
			if list[i].ConsumedCapacity == nil {
				list[i].ConsumedCapacity = map[string]string{}
			}
			list[i].ConsumedCapacity[string(name)] = quantity.String()
		}
	}
	return list
}
