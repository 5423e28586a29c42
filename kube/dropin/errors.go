// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/selector"
)

// stockError words an error of package alloc as the stock allocator does. Claims
// are told apart by namespace and name.
func stockError(err error, claims []*resourceapi.ResourceClaim) error {
	var (
		ofSelector *alloc.SelectorError
		ofDevice   *alloc.DeviceError
		ofAll      *alloc.AllError
		ofLimit    *alloc.LimitError
	)
	switch {
	case errors.As(err, &ofSelector):
		return selectorError(ofSelector, claims)
	case errors.As(err, &ofDevice):
		return deviceError(ofDevice, claims)
	case errors.As(err, &ofAll):
		return fmt.Errorf("claim %s, request %s: cannot add device %s because a claim constraint would not be satisfied",
			claimName(ofAll.Claim, claims), requestName(ofAll.Request), ofAll.Device)
	case errors.As(err, &ofLimit):
		return fmt.Errorf("claim %s, request %s: adding %d devices exceeds the claim limit of %d, with %d already accounted for",
			claimName(ofLimit.Claim, claims), ofLimit.Request, ofLimit.Adding, ofLimit.Limit, ofLimit.Before)
	}
	return err
}

func selectorError(e *alloc.SelectorError, claims []*resourceapi.ResourceClaim) error {
	owner := "claim " + claimName(e.Claim, claims)
	if e.Class != "" {
		owner = "class " + e.Class
	}
	if fault := (*selector.RuntimeError)(nil); errors.As(e.Err, &fault) {
		return fmt.Errorf("%s: selector #%d on device %s: CEL runtime error: %w", owner, e.Index, e.Device, fault.Err)
	}
	return fmt.Errorf("%s: selector #%d: CEL compile error: %w", owner, e.Index, e.Err)
}

func deviceError(e *alloc.DeviceError, claims []*resourceapi.ResourceClaim) error {
	fault := (*selector.RuntimeError)(nil)
	switch {
	case e.Capacity != "":
		device := e.Device.String()
		if e.All {
			device = e.Device.Device
		}
		return fmt.Errorf("claim %s, request %s: checking capacity for device %s: capacity %q: %w",
			claimName(e.Claim, claims), requestName(e.Request), device, e.Capacity, e.Err)
	case e.Attribute == "":
		return e.Err
	case errors.As(e.Err, &fault):
		return fmt.Errorf("evaluate derived attribute %s on device %s failed: %w", e.Attribute, e.Device, fault.Cause)
	}
	return fmt.Errorf("compile derived attribute %s failed: %w", e.Attribute, e.Err)
}

// claimName writes a claim as the stock allocator does: claims without a
// namespace have no slash in their name.
func claimName(ref string, claims []*resourceapi.ResourceClaim) string {
	for _, claim := range claims {
		if claim.Namespace+"/"+claim.Name == ref {
			return klog.KObj(claim).String()
		}
	}
	return ref
}

// requestName is the name of an alternative without that of its request.
func requestName(ref string) string {
	return ref[strings.LastIndex(ref, "/")+1:]
}
