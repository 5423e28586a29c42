// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package description is how a file describes a simulated fabric: hosts, the devices on its shelf, and what goes wrong
// with them. Package service plays it; who only reads files does not link that service.
//
// # Contract
//
//   - [ParseConfig] reads YAML or JSON, fills in what is left out, the same each time, and checks all but the faults.
//   - [Fault.Check] checks a fault, which can be added while the service runs.
//   - Errors name the object and the field.
package description
