// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
)

// placeholderName is what the SharedDRAManager knows a special claim by that does not
// exist yet. No object can have it.
const placeholderName = "<extended-resources>"

// Special marks the claim that is made for the extended resources of a pod.
type Special struct {
	// Placeholder is the UID under which the claim is held in memory, the same in
	// all attempts.
	Placeholder types.UID
	Demands     []claim.Demand
	Mappings    []v1.ContainerExtendedResourceRequest
	containers  []string
	// InMemory is set until the claim exists, made from when PreBind tries to
	// create it.
	InMemory, Made bool
}

// PlaceholderUID is that of the special claim of a pod while it is in memory.
func PlaceholderUID(pod types.UID) types.UID { return "extended-resources/" + pod }

// NewSpecial makes the claim that serves some demands of a pod.
func NewSpecial(pod *v1.Pod, demands []claim.Demand) *Claim {
	sp := &Special{Placeholder: PlaceholderUID(pod.UID), Demands: demands, InMemory: true}
	sp.Mappings, sp.containers = claim.MappingsOf(demands)
	c := claim.NewSpecial(pod, demands)
	c.Name, c.UID = SpecialName(pod), sp.Placeholder
	return &Claim{
		Claim: c, Special: sp, References: len(sp.containers),
		Consumer: claim.AsConsumer(pod),
	}
}

// SpecialName is the name of the special claim of a pod.
func SpecialName(pod *v1.Pod) string { return claim.SpecialName(pod.Name, pod.UID) }
