// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime"
	"syscall"
)

// maxResidentBytes is the high-water mark of the memory that the process has had
// in use, 0 if the system does not say.
func maxResidentBytes() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss // bytes
	}
	return usage.Maxrss << 10 // kilobytes
}
