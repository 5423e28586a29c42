// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
)

// doFinish lets pods succeed.
func doFinish(t *telling, c call) (string, error) {
	if _, err := t.state(); err != nil {
		return "", err
	}
	names, err := expandWords(c.words)
	if err != nil {
		return "", err
	}
	for _, ref := range names {
		namespace, name := splitRef(ref)
		if err := t.backend.Finish(namespace, name); err != nil {
			return "", err
		}
	}
	return "", nil
}

// doCondition reads "condition CLAIM [REQUEST=]POOL/DEVICE TYPE=STATUS [outdated]".
func doCondition(t *telling, c call) (string, error) {
	outdated := len(c.words) == 4 && c.words[3].is("outdated")
	if len(c.words) != 3 && !outdated {
		return "", c.misused()
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	rc, err := state.claim(c.words[0].text)
	if err != nil {
		return "", err
	}
	set, err := settings(c.words[2:3])
	if err != nil {
		return "", err
	}
	rc = rc.DeepCopy()
	device, err := deviceStatus(rc, c.words[1].text)
	if err != nil {
		return "", err
	}
	for _, s := range set {
		said := metav1.Condition{Type: s.key, Status: metav1.ConditionStatus(s.value), Reason: "Story"}
		if at := rc.Status.Allocation.AllocationTimestamp; outdated && at == nil {
			return "", fmt.Errorf("outdated: claim %s does not say when it was allocated", claimRef(rc))
		} else if outdated {
			said.LastTransitionTime = metav1.Unix(at.Unix()-1, 0)
		}
		device.Conditions = slices.DeleteFunc(device.Conditions, func(c metav1.Condition) bool { return c.Type == s.key })
		device.Conditions = append(device.Conditions, said)
	}
	return "", t.backend.SetDevices(rc)
}

// deviceStatus returns the entry of status.devices of an allocated device, POOL/DEVICE or
// REQUEST=POOL/DEVICE, and makes one where there is none.
func deviceStatus(c *Claim, ref string) (*resourceapi.AllocatedDeviceStatus, error) {
	for _, r := range claim.Results(c) {
		if ref != resultRef(r) && ref != r.Request+"="+resultRef(r) {
			continue
		}
		i := claim.StatusIndex(c, r)
		if i < 0 {
			i = len(c.Status.Devices)
			c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: (*string)(r.ShareID),
			})
		}
		return &c.Status.Devices[i], nil
	}
	return nil, fmt.Errorf("claim %s has no device %s", claimRef(c), ref)
}

func doSettle(t *telling, _ call) (string, error) {
	_, err := t.state()
	return "", err
}
