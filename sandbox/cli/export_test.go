// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

// SilenceStderr is for a program of the scripts.
var SilenceStderr = silenceStderr
