// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compound decides which compound devices (molecules) a node has, made of the
// devices (atoms) that unmodified drivers publish there: a GPU with the NIC beside it. A
// CompoundPolicy says which.
//
// # Contract
//
//   - [Decide] takes the drivers' slices of one node and returns what is published in their
//     place: pools of molecules, and the drivers' pools without the atoms. It is pure and
//     deterministic, whatever the order of its input.
//   - No atom is given out twice. Each atom of a molecule has a counter of 1 which all devices
//     that contain the atom consume. Counters that atoms consume of their drivers move to the
//     molecules' pool with their set, renamed; devices that would stay behind and draw on
//     the set, too, are not published.
//   - The name of a molecule follows from its atoms alone: it stays whatever else is plugged
//     in, whatever the policy says, and over restarts. It ends with a hash of drivers, pools
//     and names, since names alone do not tell molecules apart.
//   - A pool has the generation of the previous slices if these are the same, else a higher
//     one.
//   - Where atoms are not known (a policy with a mistake, selectors that take too long, a
//     broken pool) nothing of their drivers is published: they may be in use as parts of
//     molecules. Atoms of an allocated molecule ([Input.Held]) that is not published any more
//     are published in no other way.
//   - What is left out is in [Result.Report], with reason and fix. A policy with a mistake
//     yields nothing.
//   - Work and memory are bounded before they are spent: the cost of CEL, the groups by shared
//     attributes, the number of molecules. A rule that yields too many yields none.
//   - [Result.AtomsOf] is the inverse: the atoms of an allocated molecule, by driver.
//
// # What a molecule is to the API
//
// Pools have the name node/policy. Counter sets have as many slices as they need, with 8 sets
// each, and devices others, with 64 or 128 each. No limit of the API asks for more than one
// pool. A molecule can draw on 2 sets of 32 counters: combinations with more are left out.
//
//	name                      the atoms' names and a hash, at most 63 characters
//	attributes                with the domain of the driver; compound.kerf.dev/rule is added. Equal values of several atoms stay, others become a list; different types are refused
//	capacity                  with the domain of the driver; the least of several atoms, which each of them has
//	consumesCounters          1 of each atom of a molecule; the sum of what atoms consume of their drivers. More than there is: refused
//	compatibilityGroups       those that all atoms have in common; none in common is refused. Such a set stays a set of its own
//	nodeName                  the node's. Atoms that other nodes reach, too (allNodes, nodeSelector), are none
//	taints                    those of all atoms, each once, with the earliest time; more than 16 are refused
//	bindsToNode               if one atom does
//	bindingConditions         refused, as bindingFailureConditions: who sets them looks for the atom in claims
//	allowMultipleAllocations  kept of an atom that is published alone; refused in a molecule
//	requestPolicy             as allowMultipleAllocations
//	nodeAllocatableResources  added up; a mapping by capacity is refused in a molecule
//	skipNodeOperations        of a slice: what all atoms' slices skip; such devices have slices of their own
//	partitionTypeAttribute    of a slice: left out, since the atom's counter makes equal partitions cost different counters
//
// "Refused" means that this one molecule is left out, and reported. Limits of the API on
// attributes and capacities refuse, too; keep of an atom chooses some of them.
package compound
