// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kerf.dev/kerf/sandbox/rack"
)

// gatehouse is an HTTP server behind holds. It notes what it carries out, and a watch
// of it tells whatever is sent to events.
type gatehouse struct {
	t      *testing.T
	holds  Holds
	server *httptest.Server
	events chan string

	mu   sync.Mutex
	done []string
}

const (
	bindings = "/api/v1/namespaces/default/pods/p/binding"
	watched  = "/api/v1/pods?watch=true"
)

func newGatehouse(t *testing.T) *gatehouse {
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, running) })
	g := &gatehouse{t: t, events: make(chan string)}
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	guarded := g.holds.filter(http.HandlerFunc(g.serve))
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			t.Error(err)
		}
		ctx := request.WithRequestInfo(r.Context(), info)
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: r.Header.Get("user")})
		guarded.ServeHTTP(w, r.WithContext(ctx))
	}))
	g.server.EnableHTTP2 = true
	g.server.StartTLS()
	t.Cleanup(g.server.Close)
	return g
}

func (g *gatehouse) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		flusher, ok := w.(http.Flusher)
		if !ok {
			g.t.Error("the watch cannot flush")
			return
		}
		flusher.Flush()
		for {
			select {
			case event := <-g.events:
				if _, err := fmt.Fprintln(w, event); err != nil {
					return
				}
				flusher.Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Error(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = append(g.done, string(body))
	w.Header().Set("Times", fmt.Sprint(len(g.done)))
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprint(w, "done ", string(body))
}

// carriedOut is what was done so far.
func (g *gatehouse) carriedOut() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.done, " ")
}

// reply is an answer: the code, the header Times, and the body.
type reply struct {
	code        int
	times, body string
	err         error
}

func (g *gatehouse) do(ctx context.Context, by, path, body string) reply {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.URL+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	r.Header.Set("user", by)
	resp, err := g.server.Client().Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header.Get("Times"), string(text), err}
}

// ask asks in the background.
func (g *gatehouse) ask(ctx context.Context, body string) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- g.do(ctx, schedulerUser, bindings, body) }()
	return answer
}

func (g *gatehouse) hold(h Hold) {
	g.t.Helper()
	if _, err := g.holds.Add(h); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gatehouse) release(verb, resource string, how Release) {
	g.t.Helper()
	if err := g.holds.Release(verb, resource, how); err != nil {
		g.t.Fatal(err)
	}
}

// await waits until something is so.
func (g *gatehouse) await(what string, is func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("not in a minute: %s", what)
		}
	}
}

func (g *gatehouse) awaitHeld(verb, resource string) {
	g.t.Helper()
	g.await("held", func() bool { return g.holds.Held(verb, resource) })
}

var binding = Hold{Part: "scheduler", Verb: "create", Resource: "pods/binding"}

// TestHold holds a request in each way and lets it go in each way.
func TestHold(t *testing.T) {
	done := binding
	done.Done = true
	for _, tc := range []struct {
		name         string
		hold         Hold
		how          Release
		before       string // what is done while it is held
		after        string
		code         int
		times, reply string
	}{
		{"go on", binding, GoOn, "", "x", http.StatusCreated, "1", "done x"},
		{"time out", binding, TimeOut, "", "", http.StatusGatewayTimeout, "", `"reason":"Timeout"`},
		{"twice", binding, Twice, "", "x x", http.StatusCreated, "2", "done x"},
		{"done, go on", done, GoOn, "x", "x", http.StatusCreated, "1", "done x"},
		{"done, time out", done, TimeOut, "x", "x", http.StatusGatewayTimeout, "", `"reason":"Timeout"`},
		{"done, twice", done, Twice, "x", "x x", http.StatusCreated, "2", "done x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatehouse(t)
			g.hold(tc.hold)
			if err := g.holds.Release(tc.hold.Verb, tc.hold.Resource, GoOn); err == nil {
				t.Error("what has not come was released")
			}
			answer := g.ask(t.Context(), "x")
			g.awaitHeld(tc.hold.Verb, tc.hold.Resource)
			if got := g.carriedOut(); got != tc.before {
				t.Errorf("while it is held %q is done, want %q", got, tc.before)
			}
			g.release(tc.hold.Verb, tc.hold.Resource, tc.how)
			got := <-answer
			if got.err != nil || got.code != tc.code || got.times != tc.times || !strings.Contains(got.body, tc.reply) {
				t.Errorf("answer %+v, want %d %s %s", got, tc.code, tc.times, tc.reply)
			}
			if got := g.carriedOut(); got != tc.after {
				t.Errorf("%q is done, want %q", got, tc.after)
			}
			// It was for one request.
			if got := <-g.ask(t.Context(), "y"); got.code != http.StatusCreated {
				t.Errorf("the next request: %+v", got)
			}
		})
	}
}

// TestHoldIsForOne lets everything pass that a hold is not about.
func TestHoldIsForOne(t *testing.T) {
	g := newGatehouse(t)
	h := binding
	h.Saying = []string{"this", "that"}
	g.hold(h)
	for _, other := range []struct{ by, path, body string }{
		{"somebody", bindings, "this and that"},
		{rack.ControllerUser, bindings, "this and that"},
		{controllersUser, bindings, "this and that"},
		{schedulerUser, strings.TrimSuffix(bindings, "/p/binding"), "this and that"},
		{schedulerUser, bindings, "only this"},
	} {
		if got := g.do(t.Context(), other.by, other.path, other.body); got.code != http.StatusCreated || got.body != "done "+other.body {
			t.Errorf("%+v: %+v", other, got)
		}
	}
	answer := g.ask(t.Context(), "that after this")
	g.awaitHeld("create", "pods/binding")
	g.holds.close()
	if got := <-answer; got.body != "done that after this" {
		t.Errorf("at the end: %+v", got)
	}
	g.hold(binding)
	if got := <-g.ask(t.Context(), "z"); got.body != "done z" {
		t.Errorf("after the end: %+v", got)
	}
	for _, wrong := range []Hold{
		{Part: "nobody", Verb: "create", Resource: "pods"},
		{Part: "scheduler", Verb: "watch", Resource: "pods", Done: true},
		{Part: "scheduler", Verb: "watch", Resource: "pods", Refuse: true},
		{Part: "scheduler", Verb: "create", Resource: "pods", Refuse: true, Done: true},
	} {
		if _, err := g.holds.Add(wrong); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
}

// TestHoldAgain takes the same hold again when something has come for the first one, and
// tells them apart as long as nobody has released them.
func TestHoldAgain(t *testing.T) {
	g := newGatehouse(t)
	events := Hold{Part: "scheduler", Verb: "watch", Resource: "pods"}
	g.hold(binding)
	g.hold(events)
	for _, again := range []Hold{binding, events} {
		if _, err := g.holds.Add(again); err == nil {
			t.Errorf("%+v is armed twice", again)
		}
	}
	answer := g.ask(t.Context(), "x")
	g.awaitHeld("create", "pods/binding")
	g.hold(binding)
	idle, held := g.holds.Left()
	if diff := cmp.Diff([][]Hold{{events, binding}, {binding}}, [][]Hold{idle, held}); diff != "" {
		t.Errorf("idle and held (-want +got):\n%s", diff)
	}
	g.holds.abandon("scheduler")
	<-answer
	if _, held := g.holds.Left(); len(held) > 0 {
		t.Errorf("held for nobody: %v", held)
	}
}

// TestHoldOfTheGone never carries out what its sender does not wait for any more.
func TestHoldOfTheGone(t *testing.T) {
	for name, end := range map[string]func(*gatehouse, context.CancelFunc){
		"the client goes":       func(_ *gatehouse, hangUp context.CancelFunc) { hangUp() },
		"the part is abandoned": func(g *gatehouse, _ context.CancelFunc) { g.holds.abandon("scheduler") },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGatehouse(t)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			g.hold(binding)
			answer := g.ask(ctx, "x")
			g.awaitHeld("create", "pods/binding")
			end(g, hangUp)
			<-answer
			g.await("given up", func() bool { return !g.holds.Held("create", "pods/binding") })
			g.release("create", "pods/binding", GoOn)
			if got := g.carriedOut(); got != "" {
				t.Errorf("%q is done", got)
			}
		})
	}
}

// TestHoldOfWatches keeps events back, of a watch that is there and of a new one.
func TestHoldOfWatches(t *testing.T) {
	g := newGatehouse(t)
	watch := func() *bufio.Scanner {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.server.URL+watched, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("user", schedulerUser)
		resp, err := g.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	expect := func(s *bufio.Scanner, want string) {
		t.Helper()
		if !s.Scan() || s.Text() != want {
			t.Fatalf("event %q, error %v; want %s", s.Text(), s.Err(), want)
		}
	}
	first := watch()
	g.events <- "a"
	expect(first, "a")

	g.hold(Hold{Part: "scheduler", Verb: "watch", Resource: "pods"})
	if g.holds.Held("watch", "pods") {
		t.Error("there is nothing to be held yet")
	}
	g.events <- "b"
	g.awaitHeld("watch", "pods")
	second := watch() // The first one is busy, so the next event is its.
	g.events <- "c"
	heard := make(chan string, 2)
	for _, s := range []*bufio.Scanner{first, second} {
		go func() {
			s.Scan()
			heard <- s.Text()
		}()
	}
	select {
	case event := <-heard:
		t.Errorf("event %s was not held", event)
	case <-time.After(50 * time.Millisecond):
	}
	g.holds.abandon("scheduler")
	if err := g.holds.Release("watch", "pods", Twice); err == nil {
		t.Error("a watch went on twice")
	}
	g.release("watch", "pods", GoOn)
	got := []string{<-heard, <-heard}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"b", "c"}, got); diff != "" {
		t.Errorf("events after the release (-want +got):\n%s", diff)
	}
	g.events <- "d"
	if g.holds.Held("watch", "pods") {
		t.Error("the hold is not over")
	}
}
