// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/rack"
)

// fabricMotions finds what moves because of a fabric, or was not seen to stand still. There is
// nothing of the kind before the sandbox has been given a fabric.
func (s *Sandbox) fabricMotions(fabrics *cluster.Fabrics, state *cluster.State) []cluster.Motion {
	if !s.rack.Installed() {
		return nil
	}
	moving := s.rack.Motions(fabrics, state)
	if s.observer.behindAttachments(fabrics) {
		moving = append(moving, cluster.Motion{Object: rack.AttachmentResource.Resource, What: "changed just now"})
	}
	return moving
}

// behindAttachments tells whether the observer has not seen the latest change of an
// attachment.
func (o *observer) behindAttachments(fabrics *cluster.Fabrics) bool {
	var attachments []metav1.Object
	for i := range fabrics.Attachments {
		attachments = append(attachments, &fabrics.Attachments[i])
	}
	informer := o.factory.ForResource(rack.AttachmentResource).Informer()
	return !informer.HasSynced() || !sameVersions(informer.GetStore(), attachments)
}
