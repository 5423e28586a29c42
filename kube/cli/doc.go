// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line kerf, also kubectl kerf.
//
// It reads a cluster, or files, into a dump and leaves the rest to the nouns:
// simulate and alloc decide, lint finds, explain words. Nothing is ever written
// to a cluster: the only verbs are get and list.
//
// Results go to standard output, everything else to standard error. Exit codes:
//
//	0  done; lint: no finding of level error; simulate: all pods fit
//	1  lint: findings of level error; simulate: a pod does not fit
//	2  bad input: a flag, a name or a file is wrong
//	3  the cluster cannot be read, or the user may not list what the answer rests
//	   on; a file cannot be written; the command was interrupted; or kerf failed
//
// Manifests are read as an API server would take them, see package rules; what it
// refuses is bad input.
//
// An answer from a part of a cluster would be wrong without saying so: devices
// that look free, pods that look absent. So where all objects of a decisive kind
// are missing there is none. Where those of other namespaces are missing, a note
// says so.
package cli
