// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

import (
	"errors"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/explain"
)

// Denial is the answer of an API server that does not permit the special claim of a pod:
// because of a ResourceQuota, a policy, a webhook, or what the scheduler may do. Asked
// again it says the same, until somebody changes something.
type Denial struct {
	Cause error
	// text is the answer for whoever reads the pod's condition.
	text string
	// Quota is the name of the ResourceQuota, empty for other reasons; wants is what it
	// has too little of, as far as that is known.
	Quota string
	wants v1.ResourceList
}

// Error says why there is no claim, and what helps.
func (d *Denial) Error() string { return d.text }

// Unwrap returns what the API server said.
func (d *Denial) Unwrap() error { return d.Cause }

// DenialOf returns nil for errors that may be over at the next attempt.
func DenialOf(err error, claim string) *Denial {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !denies(answer.Status().Code) {
		return nil
	}
	// A webhook's words do not begin like this: it cannot speak for a quota.
	detail := strings.TrimPrefix(answer.Status().Message, `resourceclaims.resource.k8s.io "`+claim+`" is forbidden: `)
	if strings.HasPrefix(detail, "status unknown for quota: ") {
		return nil // it is so new that nobody has counted yet
	}
	d := &Denial{Cause: err}
	if of, exceeds := strings.CutPrefix(detail, "exceeded quota: "); exceeds && apierrors.IsForbidden(err) {
		d.Quota, of, _ = strings.Cut(of, ", requested: ")
		requested, _, _ := strings.Cut(of, ", used: ")
		d.wants = amountsIn(requested)
	}
	d.text = explain.SpecialNotMade(detail, d.Quota != "")
	return d
}

// denies reports whether the code of an error is an answer to what was asked for. Webhooks
// choose theirs.
func denies(code int32) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// amountsIn reads amounts as the messages about quotas have them: a=1,b=2. What it cannot
// read it leaves out; then less is known.
func amountsIn(text string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, entry := range strings.Split(text, ",") {
		name, amount, _ := strings.Cut(entry, "=")
		if q, err := resource.ParseQuantity(amount); err == nil {
			list[v1.ResourceName(name)] = q
		}
	}
	return list
}

// mayBeOver reports whether the quota, as it is by now, has what was missing.
func (d *Denial) mayBeOver(quota *v1.ResourceQuota) bool {
	for name, amount := range d.wants {
		if hard, limited := quota.Status.Hard[name]; limited {
			amount.Add(quota.Status.Used[name])
			if amount.Cmp(hard) > 0 {
				return false
			}
		}
	}
	return true
}
