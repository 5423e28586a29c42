// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes manifests the way a strict kubectl would,
// without a server.
//
// # Contract
//
//   - Input is files, directories (their *.yaml, *.yml and *.json, not below) and
//     standard input, in YAML or JSON, with any number of documents; lists
//     are taken apart.
//   - What a parser would compute without end, or what would grow far beyond the
//     file, is a mistake that is found before it is parsed; see package document.
//   - Everything is read before anything is reported or used. [Errors] has all
//     mistakes that can be found without a server: not YAML, duplicate keys, unknown
//     fields, values of the wrong type, missing names, two objects of the same
//     name. [Set.CheckComplete] adds what an empty cluster lacks: kinds and
//     versions that do not exist, namespaces that nobody defines.
//   - Every mistake names file, line, document, object and field. [Object.Errorf]
//     does the same for mistakes that a server finds later.
//   - What a server sets (uid, resourceVersion, status of most kinds, ...) is
//     dropped, so the output of "kubectl get -o yaml" is good input. [LoadStored] keeps
//     it, for who asks about the objects and does not create them.
//   - A [Set] is sorted so that nothing comes before what it needs.
//
// The package knows the kinds of client-go, CustomResourceDefinitions and
// CompoundPolicies; the fields of other custom resources are left to the server.
package manifest
