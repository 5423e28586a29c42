// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// CloseIdle closes the connections that clients of this configuration keep.
func CloseIdle(config *rest.Config) error {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	utilnet.CloseIdleConnectionsFor(transport)
	return nil
}
