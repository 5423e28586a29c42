// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import resourceapi "k8s.io/api/resource/v1"

// Tolerates tells whether the tolerations of a request pass a taint, as the search has
// it.
func Tolerates(tolerations []resourceapi.DeviceToleration, t *resourceapi.DeviceTaint) bool {
	return toleratesTaint(tolerations, t)
}
