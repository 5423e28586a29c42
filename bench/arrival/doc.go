// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arrival measures how long a pod waits after its device has arrived: from
// the moment at which a driver says so in the claim (KEP-5007) until the pod is
// bound. Kerf and the stock plugin run as two profiles of one scheduler, on the
// same API server, and take turns.
//
//	go test ./bench/arrival -run Table -v -table -rounds 20
//
// Without -table one round shows that every kind of pod is bound, and nothing is
// compared.
package arrival
