// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package race has pods compete for devices of a fabric that arrive: eight pods wait
// each for the device that is attached for it, while fifty others take any device
// that they can get. It counts the devices that the others stole.
//
//	go test ./sandbox/race -v -seeds 20
package race
