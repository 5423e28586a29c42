// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	// What controller-runtime logs by itself is of no use here, and it says so if nobody
	// takes it.
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}
