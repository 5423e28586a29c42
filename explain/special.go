// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import "fmt"

// SpecialNeedless says why a pod cannot go where device plugins serve all that it asks
// for: its status names a claim for that already.
func SpecialNeedless(claim string) string {
	return fmt.Sprintf("device plugins serve all extended resources, but status.extendedResourceClaimStatus of the pod names claim %s, which the kubelet would insist on and which cannot be taken back; delete the pod to use such a node", claim)
}

// maxDetail bounds what is told of the words of an API server.
const maxDetail = 600

// SpecialNotMade says that the claim for the extended resources of a pod cannot be made,
// and what helps. detail is why an API server does not create it; overQuota tells that a
// ResourceQuota is the reason, and not a policy, a webhook or a missing permission.
func SpecialNotMade(detail string, overQuota bool) string {
	help := "have whoever refuses it permit it"
	if overQuota {
		help = "delete claims or their pods, or have the quota raised"
	}
	return "the claim for the extended resources of the pod cannot be made: " + Cut(detail, maxDetail) + "; " + help
}
