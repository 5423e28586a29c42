// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
)

// teller puts one refusal into words. What takes a device and what was asked for, but no
// refusal, is said by [Options], what taints do by tainted.
type teller struct {
	*alloc.Refusal
	Options
	// oneClaim is set where naming the claims would tell nothing.
	oneClaim bool
	// byRequest has the funnels of each request, whatever its alternatives.
	byRequest map[alloc.RequestRef][]*alloc.RequestReport
	tainted   tainted
}

func newTeller(r *alloc.Refusal, o Options) *teller {
	t := &teller{Refusal: r, Options: o, oneClaim: true, byRequest: map[alloc.RequestRef][]*alloc.RequestReport{}}
	t.tainted = newTainted(&t.Options)
	for i := range r.Requests {
		t.oneClaim = t.oneClaim && r.Requests[i].Claim == r.Requests[0].Claim
		whole := wholeOf(r.Requests[i].RequestRef)
		t.byRequest[whole] = append(t.byRequest[whole], &r.Requests[i])
	}
	return t
}

// wholeOf is the request that a reference is to, or to an alternative of it.
func wholeOf(ref alloc.RequestRef) alloc.RequestRef {
	ref.Request, _, _ = strings.Cut(ref.Request, "/")
	return ref
}

// label names a request. All claims are of one pod, so their namespace is not
// worth a word.
func (t *teller) label(ref alloc.RequestRef) string {
	if name := t.called(ref); name != "" {
		return name
	}
	if t.oneClaim {
		return ref.Request
	}
	return short(ref.Claim) + "/" + ref.Request
}

// called is what a request is for, empty where its name says it.
func (o *Options) called(ref alloc.RequestRef) string {
	if o.Called == nil {
		return ""
	}
	return o.Called(ref)
}

func (t *teller) labels(refs []alloc.RequestRef) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = t.label(ref)
	}
	return ListAnd(names)
}

// reports returns the funnels of a request: one, or one per alternative, also
// where the reference is to one alternative.
func (t *teller) reports(ref alloc.RequestRef) []*alloc.RequestReport {
	return t.byRequest[wholeOf(ref)]
}

// report returns the funnel of one alternative. For a request as a whole it is
// the last alternative's.
func (t *teller) report(ref alloc.RequestRef) *alloc.RequestReport {
	var last *alloc.RequestReport
	for _, r := range t.reports(ref) {
		last = r
		if r.RequestRef == ref {
			break
		}
	}
	return last
}

// claimsAtFault are the claims of the conflict, each once, as far as they are known.
func (t *teller) claimsAtFault() []*resourceapi.ResourceClaim {
	var found []*resourceapi.ResourceClaim
	before := ""
	looked := map[string]bool{}
	for _, ref := range t.Conflict.Requests {
		if ref.Claim == before || looked[ref.Claim] {
			continue
		}
		before, looked[ref.Claim] = ref.Claim, true
		if claim := t.claim(ref.Claim); claim != nil {
			found = append(found, claim)
		}
	}
	return found
}

// reportsAtFault are the funnels of the requests in the conflict.
func (t *teller) reportsAtFault() []*alloc.RequestReport {
	var found []*alloc.RequestReport
	for _, ref := range t.Conflict.Requests {
		found = append(found, t.reports(ref)...)
	}
	return found
}
