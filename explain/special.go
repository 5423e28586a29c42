// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import "fmt"

// SpecialNeedless says why a pod cannot go where device plugins serve all that it asks
// for: its status names a claim for that already.
func SpecialNeedless(claim string) string {
	return fmt.Sprintf("device plugins serve all extended resources, but status.extendedResourceClaimStatus of the pod names claim %s, which the kubelet would insist on and which cannot be taken back; delete the pod to use such a node", claim)
}
