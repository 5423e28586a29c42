// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/fabric"
)

// teller writes events for people: on attachments, and on the claims that they are
// for and the pods that wait for those.
type teller struct {
	recorder events.EventRecorder
	live     client.Reader
	log      logr.Logger
}

// phase tells of a phase that was entered, where people wait for it.
func (t *teller) phase(ctx context.Context, a *v1alpha1.DeviceAttachment) {
	kind, note := corev1.EventTypeNormal, a.Status.Message
	switch fabric.Phase(a.Status.Phase) {
	case fabric.PhaseAttaching:
		note = "the fabric's manager is asked to attach device " + a.Spec.Device + " to node " + a.Spec.Node
	case fabric.PhaseDetaching:
		note = "the fabric's manager is asked to detach device " + a.Spec.Device + " from node " + a.Spec.Node
	case fabric.PhaseFailed, fabric.PhaseAttachUnknown, fabric.PhaseDetachUnknown:
		kind = corev1.EventTypeWarning
	default:
		return
	}
	t.recorder.Eventf(a, nil, kind, string(a.Status.Phase), "Attach", "%s", brief(orPhase(note, a)))
	if fabric.Phase(a.Status.Phase) != fabric.PhaseAttaching || a.Spec.Claim == nil {
		return
	}
	claim := &resourceapi.ResourceClaim{}
	key := client.ObjectKey{Namespace: a.Spec.Claim.Namespace, Name: a.Spec.Claim.Name}
	if err := t.live.Get(ctx, key, claim); err != nil {
		// Nobody is left to tell, or nobody can be told now. The attachment's own event
		// is written.
		if client.IgnoreNotFound(err) != nil {
			t.log.Error(err, "Cannot tell a claim's pods of its attachment", "claim", key, "attachment", a.Name)
		}
		return
	}
	if claim.UID == a.Spec.Claim.UID {
		t.claim(claim, a, kind, "DeviceAttaching", note)
	}
}

func orPhase(note string, a *v1alpha1.DeviceAttachment) string {
	if note == "" {
		return "device " + a.Spec.Device + " of fabric " + a.Spec.Fabric
	}
	return note
}

// maxNote is the longest note of an event that the API takes.
const maxNote = 1023

func brief(note string) string { return cut(note, maxNote) }

// condition tells of a condition that was written.
func (t *teller) condition(claim *resourceapi.ResourceClaim, action *fabric.SetCondition) {
	if action.Failed {
		t.claim(claim, nil, corev1.EventTypeWarning, "DeviceAttachFailed",
			"device "+action.Device.Device+": "+string(action.Reason)+": "+messageOf(action))
		return
	}
	t.claim(claim, nil, corev1.EventTypeNormal, "DeviceAttached", messageOf(action))
}

// claim writes an event on a claim and on the pods that it is reserved for.
func (t *teller) claim(c *resourceapi.ResourceClaim, related runtime.Object, kind, reason, note string) {
	note = brief(note)
	t.recorder.Eventf(c, related, kind, reason, "Attach", "%s", note)
	for _, consumer := range c.Status.ReservedFor {
		if !claim.IsPod(consumer) {
			continue
		}
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: consumer.Name, UID: consumer.UID},
		}
		t.recorder.Eventf(pod, c, kind, reason, "Attach", "%s", brief("claim "+c.Name+": "+note))
	}
}
