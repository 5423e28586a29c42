// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package story tells the stories of package scenario on a sandbox: a real API
// server with its validation, the real controllers, and kerf-scheduler.
//
// There is one sandbox in a process, so stories are told one after the other.
// Each begins and ends with an empty cluster: [Clear] removes what a story, or
// whoever used the sandbox before, has left.
package story
