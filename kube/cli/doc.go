// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line kerf, also kubectl kerf.
//
// It reads a cluster, or files, into a dump and leaves the rest to the nouns: simulate
// and alloc decide, lint finds mistakes, explain and show word the answers. It never
// writes to a cluster: its only verbs are get and list.
//
// Results go to standard output, everything else to standard error. Exit codes:
//
//	0  done; lint: no finding of level error; simulate: all pods fit
//	1  lint: findings of level error; simulate: a pod does not fit
//	2  bad input: a flag, a name or a file is wrong
//	3  the cluster cannot be read, or the user may not list what the answer rests
//	   on; a file cannot be written; the command was interrupted; or kerf failed
//
// What an API server would refuse of a manifest is bad input, see package rules.
//
// An answer from a part of a cluster could be wrong: devices look free, pods look
// absent. So if all objects of a kind that decides are missing, there is no answer.
// If those of other namespaces are missing, a note says so.
package cli
