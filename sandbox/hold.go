// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"

	"kerf.dev/kerf/sandbox/rack"
)

// Hold says which request of a part is to wait at the API server: the next one that
// matches. A watch is held differently: events that it would send are kept back,
// those of watches that are there already and of new ones.
//
// Matches and Refuse are for tests, and not for watches.
type Hold struct {
	// Part is scheduler, controller or kube-controller-manager.
	Part string
	// Verb and Resource are as RBAC has them: create, pods/binding.
	Verb, Resource string
	// Done has the API server carry the request out before it waits, so that
	// only the answer is held.
	Done bool
	// Saying are texts that must all be in the request's body.
	Saying []string
	// Matches, if not nil, decides about a request by what it is about to change.
	Matches func(*Request) bool
	// Refuse has all requests that match be refused at once, instead of the next one
	// wait: the part goes on with other things, and tries again.
	Refuse bool
}

// Release says what becomes of a request that was held.
type Release int

const (
	// GoOn has the request carried out, or its answer sent if it was.
	GoOn Release = iota
	// TimeOut answers that time is up. If the request was held before it was done,
	// it never is.
	TimeOut
	// Twice has the request carried out twice, as when the network repeats it, and
	// the second answer sent.
	Twice
)

// partUsers are the users of the parts whose requests can be held.
var partUsers = map[string]string{"scheduler": schedulerUser, "controller": rack.ControllerUser, "kube-controller-manager": controllersUser}

// heldUsers are those users.
var heldUsers = slices.Collect(maps.Values(partUsers))

// stage is how far a hold is.
type stage int

const (
	armed    stage = iota
	caught         // a request has come, which may still be carried out
	waiting        // it waits for release, or was refused and others will be
	gone           // its client is gone
	released       // the wait is over
)

// Held is a Hold and what has come for it.
type Held struct {
	Hold
	in    *Holds
	user  string
	stage stage
	how   Release
	// ended is closed when the stage becomes gone or released.
	ended chan struct{}
}

// Reached reports whether a request waits, or was refused.
func (one *Held) Reached() bool {
	one.in.mu.Lock()
	defer one.in.mu.Unlock()
	return one.stage == waiting
}

// Release ends the hold. It does nothing if it has ended.
func (one *Held) Release(how Release) {
	one.in.mu.Lock()
	defer one.in.mu.Unlock()
	if one.stage != released {
		one.in.end(one, released, how)
	}
}

// Holds are the holds of one API server: the way to have a request fail, wait, or get
// lost at an exact point of a part's work.
type Holds struct {
	mu  sync.Mutex
	all []*Held
	// closed lets everything pass.
	closed bool
}

// Add arms a hold. It stays until it is released, but a request whose client goes
// away, because the part was killed or cut off, is not carried out any more. It is an error
// to arm the same hold again before something has come for it.
func (h *Holds) Add(what Hold) (*Held, error) {
	user, ok := partUsers[what.Part]
	switch {
	case !ok:
		return nil, fmt.Errorf("hold: no part %q whose requests could be held; want scheduler, controller or kube-controller-manager", what.Part)
	case what.Verb == "watch" && (what.Done || what.Refuse || what.Matches != nil || len(what.Saying) > 0):
		return nil, fmt.Errorf("hold: all events of a watch are held, whatever they say, and before they are sent")
	case what.Refuse && what.Done:
		return nil, fmt.Errorf("hold: what is refused is not done")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.all, func(one *Held) bool { return one.repeats(what) }) {
		return nil, fmt.Errorf("hold: %s %s %s is to be held already", what.Part, what.Verb, what.Resource)
	}
	h.all = slices.DeleteFunc(h.all, func(one *Held) bool {
		return one.stage == gone && one.Verb == what.Verb && one.Resource == what.Resource
	})
	added := &Held{Hold: what, in: h, user: user, ended: make(chan struct{})}
	h.all = append(h.all, added)
	return added, nil
}

// repeats reports whether another hold is for what this one still waits for. One of a
// watch is for all that comes. What matches by more than words is not compared.
func (one *Held) repeats(what Hold) bool {
	if one.Part != what.Part || one.Verb != what.Verb || one.Resource != what.Resource || one.Matches != nil || what.Matches != nil {
		return false
	}
	return one.Verb == "watch" || one.stage == armed && one.Done == what.Done && slices.Equal(one.Saying, what.Saying)
}

// Left returns the holds that nobody has released: the idle ones, which nothing came for,
// and those for which something waits. One whose client is gone is neither.
func (h *Holds) Left() (idle, held []Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		switch one.stage {
		case armed:
			idle = append(idle, one.Hold)
		case caught, waiting:
			held = append(held, one.Hold)
		}
	}
	return idle, held
}

// find returns the first hold of these requests at a stage. The caller
// holds the lock.
func (h *Holds) find(verb, resource string, at stage) *Held {
	i := slices.IndexFunc(h.all, func(one *Held) bool {
		return one.Verb == verb && one.Resource == resource && one.stage == at
	})
	if i < 0 {
		return nil
	}
	return h.all[i]
}

// Held reports whether a request waits. One that is held when it is done waits from
// then on; a watch, as soon as there is an event that it may not send.
func (h *Holds) Held(verb, resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(verb, resource, waiting) != nil
}

// blinds reports whether a part's watch of a resource is held: it cannot know of changes.
func (h *Holds) blinds(part, resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.all, func(one *Held) bool {
		return one.Part == part && one.Verb == "watch" && one.Resource == resource
	})
}

// Release ends a hold. It is an error if no such request has come; for a watch it is
// not.
func (h *Holds) Release(verb, resource string, how Release) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.find(verb, resource, waiting)
	if one == nil {
		one = h.find(verb, resource, gone)
	}
	if one == nil && verb == "watch" {
		one = h.find(verb, resource, armed)
	}
	switch {
	case one == nil:
		return fmt.Errorf("release: no %s %s is held; await it first", verb, resource)
	case verb == "watch" && how != GoOn:
		return fmt.Errorf("release: a watch can only go on")
	}
	h.end(one, released, how)
	return nil
}

// ReleaseAll ends all holds. What waits goes on.
func (h *Holds) ReleaseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range slices.Clone(h.all) {
		h.end(one, released, GoOn)
	}
}

// close releases all and holds nothing any more.
func (h *Holds) close() {
	h.ReleaseAll()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// abandon ends the requests of a part that was killed or cut off. What is only armed
// stays so, for the next run of the part.
func (h *Holds) abandon(part string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range slices.Clone(h.all) {
		if one.Part == part && one.Verb != "watch" && !one.Refuse && (one.stage == caught || one.stage == waiting) {
			h.end(one, gone, TimeOut)
		}
	}
}

// end moves a hold to its end. One that was released is forgotten. The caller holds
// the lock.
func (h *Holds) end(one *Held, to stage, how Release) {
	if one.stage != gone {
		close(one.ended)
		one.how = how
	}
	one.stage = to
	if to == released {
		h.all = slices.DeleteFunc(h.all, func(other *Held) bool { return other == one })
	}
}

// asked is what a request asks for, and who asks.
type asked struct{ user, verb, resource string }

// whatAsks is false for what no hold can be about.
func whatAsks(ctx context.Context) (asked, bool) {
	info, known := request.RequestInfoFrom(ctx)
	user, authenticated := request.UserFrom(ctx)
	if !known || !authenticated || !info.IsResourceRequest {
		return asked{}, false
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	return asked{user.GetName(), info.Verb, resource}, true
}

func (one *Held) isFor(a asked) bool {
	return one.user == a.user && one.Verb == a.verb && one.Resource == a.resource
}

func (one *Held) isSaidIn(body string) bool {
	return !slices.ContainsFunc(one.Saying, func(text string) bool { return !strings.Contains(body, text) })
}

// open reports whether the hold is for such a request, and for the next one that comes.
func (one *Held) open(a asked) bool {
	return one.isFor(a) && (one.stage == armed || one.stage == waiting && one.Refuse)
}

// expects reports whether a hold waits for such a request, and has to look into it.
func (h *Holds) expects(a asked) (expected, look bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		if !h.closed && one.open(a) {
			expected, look = true, look || one.Matches != nil
		}
	}
	return expected, look
}

// catch returns the hold that is for a request with this body, nil if there is none. What
// the request is about to change is nil if nobody has looked.
func (h *Holds) catch(a asked, body []byte, seen *Request) *Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	for _, one := range h.all {
		if !one.open(a) || !one.isSaidIn(string(body)) || one.Matches != nil && (seen == nil || !one.Matches(seen)) {
			continue
		}
		if one.stage = caught; one.Refuse {
			one.stage = waiting
		}
		return one
	}
	return nil
}

// wait waits for the release of a request. One whose client is gone is not released.
func (h *Holds) wait(ctx context.Context, one *Held) Release {
	h.mu.Lock()
	if one.stage == caught {
		one.stage = waiting
	}
	h.mu.Unlock()
	select {
	case <-one.ended:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		return one.how
	}
	if one.stage == waiting {
		h.end(one, gone, TimeOut)
	}
	return TimeOut
}

// pass waits as long as events of a watch are held. The error is that of the context.
func (h *Holds) pass(ctx context.Context, a asked) error {
	h.mu.Lock()
	i := slices.IndexFunc(h.all, func(one *Held) bool { return one.isFor(a) })
	if i < 0 || h.closed {
		h.mu.Unlock()
		return nil
	}
	one := h.all[i]
	one.stage = waiting
	h.mu.Unlock()
	select {
	case <-one.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// filter is what the API server's requests pass through when everything about them is
// checked and nothing is done yet.
func (h *Holds) filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := whatAsks(r.Context())
		switch {
		case !ok || !slices.Contains(heldUsers, a.user):
			next.ServeHTTP(w, r)
		case a.verb == "watch":
			next.ServeHTTP(h.gate(r.Context(), w, a), r)
		default:
			h.serve(w, r, a, next)
		}
	})
}
