// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package augment has a DRA driver publish its devices with what files in a
// directory add to them. The format of the files, and what they can and cannot
// do, is that of package kerf.dev/kerf/augment.
//
// A driver makes a [Publisher] and calls [Publisher.Publish] where it called
// kubeletplugin.Helper.PublishResources or resourceslice.Controller.Update. Who
// publishes in another way watches a [Directory] and calls [Apply].
//
// A [Guard] beside the Publisher writes files of its own: devices that a fabric
// attaches to the node are published with a taint for their claims.
//
// # Contract
//
//   - Nothing can be published before the directory was read: [NewPublisher] and
//     [Open] return after that.
//   - Publish reads the directory again before it publishes. What was in the
//     directory before a device was found is on the device when it is first
//     published, however late the kernel tells of changes.
//   - A change of the rules that concerns the driver leads to a publication, any
//     other change to none. Publications are in order: none has older rules or
//     older devices than the one before.
//   - A broken file is reported as a [BrokenFile]. Its last good version stays in
//     force; if there was none since the start, the file is ignored. A file that
//     is gone no longer counts. While the directory cannot be read, what was read
//     last stays in force.
//   - The same report is not repeated while nothing changes.
//   - Files are found by name: see [augment.IsFileName]. Subdirectories are not
//     read. Symbolic links are followed, so the swap of links by which the kubelet
//     updates the files of a ConfigMap is one change. The directory may be
//     replaced as a whole.
//   - A Guard's files are in place before NewGuard returns and before it says so on an
//     attachment. Files that somebody deleted or changed are written again, those of
//     attachments that need none are deleted, also after a restart. Of an attachment it
//     writes the condition NodeGuarded alone: an admission policy refuses anything else.
//   - Every goroutine ends with Close or with the context.
package augment
