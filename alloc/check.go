// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc
