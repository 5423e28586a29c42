// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// doCondition reads "condition CLAIM POOL/DEVICE TYPE=STATUS".
func doCondition(t *telling, c call) (string, error) {
	if len(c.words) != 3 {
		return "", c.misused()
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	claim, err := state.claim(c.words[0].text)
	if err != nil {
		return "", err
	}
	set, err := settings(c.words[2:])
	if err != nil {
		return "", err
	}
	claim = claim.DeepCopy()
	device, err := deviceStatus(claim, c.words[1].text)
	if err != nil {
		return "", err
	}
	for _, s := range set {
		device.Conditions = slices.DeleteFunc(device.Conditions, func(c metav1.Condition) bool { return c.Type == s.key })
		device.Conditions = append(device.Conditions, metav1.Condition{Type: s.key, Status: metav1.ConditionStatus(s.value), Reason: "Story"})
	}
	return "", t.backend.SetDevices(claim)
}

// deviceStatus returns the entry of status.devices of an allocated device, and
// makes one where there is none.
func deviceStatus(claim *Claim, ref string) (*resourceapi.AllocatedDeviceStatus, error) {
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s is not allocated", claimRef(claim))
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if resultRef(&r) != ref {
			continue
		}
		for i := range claim.Status.Devices {
			if d := &claim.Status.Devices[i]; d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device {
				return d, nil
			}
		}
		claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device})
		return &claim.Status.Devices[len(claim.Status.Devices)-1], nil
	}
	return nil, fmt.Errorf("claim %s has no device %s", claimRef(claim), ref)
}

func doSettle(t *telling, _ call) (string, error) {
	_, err := t.state()
	return "", err
}
