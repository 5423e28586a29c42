// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	systems = "/redfish/v1/Systems/"
	blocks  = "/redfish/v1/CompositionService/ResourceBlocks/"
)

// rig is a service that is asked without a network.
type rig struct {
	*service.Service
	t      *testing.T
	clock  *service.ManualClock
	sights []string
	kept   service.State
}

func newRig(t *testing.T, yaml string, state *service.State) *rig {
	t.Helper()
	return describedRig(t, "hosts: [{id: host-a}, {id: host-b}]\nblocks: [{id: gpu, count: 3}]\n"+yaml, state)
}

func describedRig(t *testing.T, yaml string, state *service.State) *rig {
	t.Helper()
	config, err := description.ParseConfig([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: service.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	r.Service, err = service.New(config, service.Options{
		Username: "kerf", Password: "secret", Clock: r.clock, State: state,
		Observer: func(s service.Sight) {
			seen := s.Host + ":"
			for _, d := range s.Devices {
				seen += " " + d.Block
			}
			r.sights = append(r.sights, seen)
		},
		Persist: func(s service.State) { r.kept = s },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// ask sends a request and returns the answer; status 0 means that there is none.
func (r *rig) ask(method, path, body string, header ...string) (answer *httptest.ResponseRecorder, status int) {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	q.SetBasicAuth("kerf", "secret")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	answer = httptest.NewRecorder()
	status = func() (status int) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // A panic's value is compared.
				panic(p)
			}
		}()
		r.Handler().ServeHTTP(answer, q)
		return answer.Code
	}()
	return answer, status
}

// act attaches or detaches.
func (r *rig) act(action, host, block string) int {
	r.t.Helper()
	_, status := r.ask("POST", systems+host+"/Actions/ComputerSystem."+action, fmt.Sprintf(`{"ResourceBlock": {"@odata.id": %q}}`, blocks+block))
	return status
}

func (r *rig) attach(host, block string) int { return r.act("AddResourceBlock", host, block) }
func (r *rig) detach(host, block string) int { return r.act("RemoveResourceBlock", host, block) }

func (r *rig) wantSights(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.sights); diff != "" {
		r.t.Errorf("what hosts saw (-want +got):\n%s", diff)
	}
	r.sights = nil
}

func (r *rig) wantStatus(what string, got, want int) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: status %d, want %d", what, got, want)
	}
}

func TestCredentialsAreRequired(t *testing.T) {
	if _, err := service.New(description.Config{Hosts: []description.Host{{ID: "a"}}}, service.Options{Username: "kerf"}); err == nil {
		t.Error("a service without a password was made")
	}
	r := newRig(t, "", nil)
	for _, path := range []string{"/redfish/v1/Systems", blocks + "gpu-1", "/redfish/v1/nothing", "/redfish/v1/SessionService/Sessions"} {
		for _, header := range [][]string{{"Authorization", ""}, {"Authorization", "Basic a2VyZjp3cm9uZw=="}, {"X-Auth-Token", "guess"}} {
			_, status := r.ask("GET", path, "", header...)
			r.wantStatus(path, status, http.StatusUnauthorized)
		}
	}
	_, status := r.ask("GET", "/redfish/v1/", "", "Authorization", "")
	r.wantStatus("the root is open", status, http.StatusOK)
}

func TestSession(t *testing.T) {
	r := newRig(t, "", nil)
	_, status := r.ask("POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "kerf", "Password": "wrong"}`, "Authorization", "")
	r.wantStatus("wrong password", status, http.StatusUnauthorized)
	answer, status := r.ask("POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "kerf", "Password": "secret"}`, "Authorization", "")
	r.wantStatus("login", status, http.StatusCreated)
	token, at := answer.Header().Get("X-Auth-Token"), answer.Header().Get("Location")
	if strings.Contains(answer.Body.String(), "secret") || strings.Contains(answer.Body.String(), token) {
		t.Errorf("the session tells secrets: %s", answer.Body)
	}
	_, status = r.ask("GET", "/redfish/v1/Systems", "", "X-Auth-Token", token)
	r.wantStatus("with the token", status, http.StatusOK)
	r.clock.Advance(29 * time.Minute)
	_, status = r.ask("GET", at, "", "X-Auth-Token", token)
	r.wantStatus("used in time", status, http.StatusOK)
	r.clock.Advance(30 * time.Minute)
	_, status = r.ask("GET", at, "", "X-Auth-Token", token)
	r.wantStatus("not used for long", status, http.StatusUnauthorized)
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestConditionalRequests(t *testing.T) {
	r := newRig(t, "", nil)
	const path, reserve = blocks + "gpu-1", `{"CompositionStatus": {"Reserved": true}}`
	answer, _ := r.ask("GET", path, "")
	tag := answer.Header().Get("ETag")
	_, status := r.ask("GET", path, "", "If-None-Match", `"other", `+tag)
	r.wantStatus("the same", status, http.StatusNotModified)
	answer, status = r.ask("PATCH", path, reserve, "If-Match", tag)
	r.wantStatus("reserve", status, http.StatusOK)
	if answer.Header().Get("ETag") == tag {
		t.Error("the ETag is the same after a change")
	}
	_, status = r.ask("PATCH", path, reserve, "If-Match", tag)
	r.wantStatus("reserve with the old ETag", status, http.StatusPreconditionFailed)
	_, status = r.ask("PATCH", path, `{"CompositionStatus": {"Reserved": false}}`, "If-Match", "*")
	r.wantStatus("give back", status, http.StatusOK)
	again, _ := r.ask("GET", path, "")
	if got := again.Header().Get("ETag"); got != tag {
		t.Errorf("ETag is %s, want %s as before: it depends on the content alone", got, tag)
	}
	answer, _ = r.ask("GET", systems+"host-a", "")
	tag = answer.Header().Get("ETag")
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusNoContent)
	body := fmt.Sprintf(`{"ResourceBlock": {"@odata.id": "%sgpu-2"}, "ComputerSystemETag": %q}`, blocks, tag)
	_, status = r.ask("POST", systems+"host-a/Actions/ComputerSystem.AddResourceBlock", body)
	r.wantStatus("attach with the old ETag", status, http.StatusPreconditionRequired)
}

// TestEveryLinkLeadsSomewhere follows all links from the root, with a session, a task and an attached device.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	r := newRig(t, "tasks: true", nil)
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusAccepted)
	_, status := r.ask("POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "kerf", "Password": "secret"}`)
	r.wantStatus("login", status, http.StatusCreated)
	seen := map[string]bool{}
	queue := []string{"/redfish/v1/"}
	var follow func(value any)
	follow = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, inner := range v {
				if path, ok := inner.(string); ok && (name == "@odata.id" || name == "@Redfish.ActionInfo") && !seen[path] {
					seen[path] = true
					queue = append(queue, path)
				}
				follow(inner)
			}
		case []any:
			for _, inner := range v {
				follow(inner)
			}
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		answer, status := r.ask("GET", queue[0], "")
		var body map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || status != http.StatusOK || body["@odata.id"] != queue[0] || body["@odata.type"] == "" {
			t.Errorf("%s: %d %s", queue[0], status, answer.Body)
		}
		follow(body)
	}
	// Root, 3 services, 5 collections, 2 systems with 2 ActionInfos each, 5 blocks with 3 processors, zone, session, task.
	if want := 26; len(seen) != want {
		t.Errorf("found %d resources, want %d: %v", len(seen), want, slices.Sorted(maps.Keys(seen)))
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, "", nil)
	const add = systems + "host-a/Actions/ComputerSystem.AddResourceBlock"
	for _, tc := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", add, `nonsense`, 400},
		{"POST", add, `{}`, 400},
		{"POST", add, `{"ResourceBlock": {"@odata.id": "` + blocks + `host-b"}}`, 400},
		{"POST", add, strings.Repeat(" ", 2<<20), 400},
		{"POST", systems + "host-z/Actions/ComputerSystem.AddResourceBlock", `{}`, 404},
		{"PATCH", systems + "host-a", `{"HostName": "x"}`, 400},
		{"PATCH", systems + "host-a", `{"Links": {"ResourceBlocks": []}}`, 409},
		{"PATCH", systems + "host-a", `{"Links": {"ResourceBlocks": [{"@odata.id": "` + blocks + `host-a"}, {"@odata.id": "x"}]}}`, 400},
		{"PATCH", blocks + "gpu-1", `{"Name": "x"}`, 400},
		{"PATCH", blocks + "gpu-9", `{}`, 404},
		{"GET", blocks + "gpu-1/PCIeDevices/1", ``, 404},
		{"GET", blocks + "gpu-1/Processors/2", ``, 404},
		{"GET", "/redfish/v1/Systems?$expand=all", ``, 400},
		{"GET", "/redfish/v1/Systems?$expand=.($levels=3)", ``, 400},
		{"GET", "/redfish/v1/Systems?$skip=x", ``, 400},
		{"GET", "/redfish/v1/TaskService/TaskMonitors/1", ``, 404},
		{"GET", "/redfish/v1/Chassis", ``, 404},
	} {
		answer, status := r.ask(tc.method, tc.path, tc.body)
		r.wantStatus(tc.method+" "+tc.path, status, tc.want)
		var body struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || body.Error.Message == "" {
			t.Errorf("%s %s: the error is not Redfish's: %s", tc.method, tc.path, answer.Body)
		}
	}
	r.wantSights()
}

func TestConflicts(t *testing.T) {
	r := newRig(t, "latency: {attach: 1s}\ntasks: true", nil)
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusAccepted)
	r.wantStatus("while it is composed", r.attach("host-b", "gpu-1"), http.StatusConflict)
	r.clock.Advance(time.Second)
	r.wantStatus("when it is composed", r.attach("host-b", "gpu-1"), http.StatusConflict)
	r.wantStatus("detach elsewhere", r.detach("host-b", "gpu-1"), http.StatusConflict)
	r.wantStatus("detach", r.detach("host-a", "gpu-1"), http.StatusAccepted)
	r.wantStatus("detach again", r.detach("host-a", "gpu-1"), http.StatusConflict)
	if err := r.Vanish("gpu-2"); err != nil {
		t.Fatal(err)
	}
	r.wantStatus("in bad health", r.attach("host-a", "gpu-2"), http.StatusConflict)
}

func TestLimits(t *testing.T) {
	r := newRig(t, "latency: {attach: 1s}\ntasks: true\nlimits: {concurrent: 2, perHost: 1, retryAfter: 1500ms}", nil)
	r.wantStatus("first", r.attach("host-a", "gpu-1"), http.StatusAccepted)
	r.wantStatus("host is full", r.attach("host-a", "gpu-2"), http.StatusServiceUnavailable)
	r.wantStatus("other host", r.attach("host-b", "gpu-2"), http.StatusAccepted)
	answer, status := r.ask("POST", systems+"host-b/Actions/ComputerSystem.AddResourceBlock", `{"ResourceBlock": {"@odata.id": "`+blocks+`gpu-3"}}`)
	r.wantStatus("service is full", status, http.StatusServiceUnavailable)
	if got := answer.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q, want 2: whole seconds, rounded up", got)
	}
	stats := r.Stats()
	if stats.Operations != 2 || stats.MaxOperations != 2 || stats.MaxPerHost != 1 {
		t.Errorf("got %+v, want 2 operations, 2 at once, 1 per host", stats)
	}
	if got := stats.Requests["POST /redfish/v1/Systems/{system}/Actions/ComputerSystem.AddResourceBlock"]; got != 4 {
		t.Errorf("counted %d requests to attach, want 4", got)
	}
}

func TestWhatHostsSee(t *testing.T) {
	r := newRig(t, "latency: {attach: 2s, detach: 1s, appear: 3s}\ntasks: true", nil)
	r.wantStatus("attach", r.attach("host-a", "gpu-2"), http.StatusAccepted)
	r.clock.Advance(4 * time.Second)
	r.wantSights()
	r.clock.Advance(time.Second)
	r.wantSights("host-a: gpu-2")
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusAccepted)
	r.clock.Advance(5 * time.Second)
	r.wantSights("host-a: gpu-1 gpu-2")
	r.wantStatus("detach", r.detach("host-a", "gpu-2"), http.StatusAccepted)
	r.clock.Advance(time.Second)
	r.wantSights("host-a: gpu-1")
	if err := r.Vanish("gpu-1"); err != nil {
		t.Fatal(err)
	}
	r.wantSights("host-a:")
	if err := r.Repair("gpu-1"); err != nil {
		t.Fatal(err)
	}
	r.wantSights("host-a: gpu-1")
	if err := r.Compose("gpu-1", "host-b"); err != nil {
		t.Fatal(err)
	}
	r.wantSights("host-a:", "host-b: gpu-1")
	d := r.Sees("host-b")[0]
	if d.UUID == "" || d.SerialNumber == "" || d.PCIAddress == "" {
		t.Errorf("the host cannot identify what it sees: %+v", d)
	}
}

// TestZones has each zone list the blocks that are in it, also those that stand for hosts,
// and nothing composed across zones.
func TestZones(t *testing.T) {
	r := describedRig(t, "zones: [left, right]\nhosts: [{id: host-a, zones: [left]}, {id: host-b, zones: [right]}]\nblocks: [{id: gpu-1, zones: [left, right]}, {id: gpu-2, zones: [right]}]", nil)
	for zone, want := range map[string][]string{"left": {"host-a", "gpu-1"}, "right": {"host-b", "gpu-1", "gpu-2"}} {
		answer, status := r.ask("GET", "/redfish/v1/CompositionService/ResourceZones/"+zone, "")
		r.wantStatus(zone, status, http.StatusOK)
		var got struct {
			Links struct {
				ResourceBlocks []struct {
					ID string `json:"@odata.id"`
				}
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, b := range got.Links.ResourceBlocks {
			ids = append(ids, strings.TrimPrefix(b.ID, blocks))
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("blocks of zone %s (-want +got):\n%s", zone, diff)
		}
	}
	r.wantStatus("attach across zones", r.attach("host-a", "gpu-2"), http.StatusConflict)
	if err := r.Compose("gpu-2", "host-a"); err == nil || !strings.Contains(err.Error(), "in none of its zones") {
		t.Errorf("compose across zones: %v", err)
	}
	r.wantSights()
}

// TestAppearsTooLate detaches a device before its host saw it.
func TestAppearsTooLate(t *testing.T) {
	r := newRig(t, "latency: {appear: 3s}", nil)
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusNoContent)
	r.wantStatus("detach", r.detach("host-a", "gpu-1"), http.StatusNoContent)
	r.wantStatus("attach", r.attach("host-b", "gpu-1"), http.StatusNoContent)
	r.clock.Advance(3 * time.Second)
	r.wantSights("host-b: gpu-1")
}

func TestFaultScript(t *testing.T) {
	r := newRig(t, "", nil)
	for _, f := range []description.Fault{
		{Kind: description.FaultRefused, Block: "gpu-1", Nth: 2, Times: 2},
		{Kind: description.FaultRefused, Host: "host-b", Operation: description.OperationDetach, Times: -1, Status: 418},
		{Kind: description.FaultVanishes, Block: "gpu-2", After: description.Duration(time.Second)},
		{Kind: description.FaultWrongHost, Block: "gpu-3", To: "host-b"},
		{Kind: description.FaultNeverAppears, Block: "gpu-1", Nth: 2},
	} {
		if err := r.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	r.wantStatus("1st call for gpu-1", r.attach("host-a", "gpu-1"), 204)
	r.wantStatus("2nd", r.detach("host-a", "gpu-1"), 409)
	r.wantStatus("3rd", r.detach("host-a", "gpu-1"), 409)
	r.wantStatus("4th", r.detach("host-a", "gpu-1"), 204)
	r.wantSights("host-a: gpu-1", "host-a:")
	r.wantStatus("2nd attach of gpu-1", r.attach("host-a", "gpu-1"), 204)
	r.wantSights()
	r.wantStatus("gpu-3", r.attach("host-a", "gpu-3"), 204)
	r.wantSights("host-b: gpu-3")
	for range 3 {
		r.wantStatus("detach from host-b", r.detach("host-b", "gpu-3"), 418)
	}
	r.wantStatus("gpu-2", r.attach("host-a", "gpu-2"), 204)
	r.wantSights("host-a: gpu-2")
	r.clock.Advance(time.Second)
	r.wantSights("host-a:")
	if n := len(r.Faults()); n != 5 {
		t.Errorf("the script has %d faults, want 5", n)
	}
	r.ClearFaults()
	r.wantStatus("detach from host-b", r.detach("host-b", "gpu-3"), 204)
}

func TestLostCalls(t *testing.T) {
	r := newRig(t, "", nil)
	for _, f := range []description.Fault{
		{Kind: description.FaultLostRequest, Block: "gpu-1"}, {Kind: description.FaultLostReply, Block: "gpu-2"},
		{Kind: description.FaultLostRequest, Operation: description.OperationRead},
	} {
		if err := r.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	r.wantStatus("lost request", r.attach("host-a", "gpu-1"), 0)
	r.wantSights()
	r.wantStatus("lost reply", r.attach("host-a", "gpu-2"), 0)
	r.wantSights("host-a: gpu-2")
	_, status := r.ask("GET", "/redfish/v1/Systems", "")
	r.wantStatus("lost read", status, 0)
}

func TestFaultErrors(t *testing.T) {
	r := newRig(t, "", nil)
	for _, tc := range []struct {
		fault description.Fault
		want  string
	}{
		{description.Fault{Kind: "bored"}, `kind is "bored", want one of busy`},
		{description.Fault{Kind: description.FaultBusy, Operation: "dance"}, `operation is "dance"`},
		{description.Fault{Kind: description.FaultBusy, Block: "x"}, `there is no block "x"`},
		{description.Fault{Kind: description.FaultBusy, Host: "x"}, `host: there is no host "x"`},
		{description.Fault{Kind: description.FaultWrongHost}, "to is missing"},
		{description.Fault{Kind: description.FaultBusy, Times: -2}, "times is -2"},
		{description.Fault{Kind: description.FaultBusy, Status: 200}, "status is 200"},
	} {
		if err := r.AddFault(tc.fault); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %q", tc.fault, err, tc.want)
		}
	}
}

// TestRestart stops a service at each step of an attach and goes on from what it kept.
func TestRestart(t *testing.T) {
	const config = "latency: {attach: 2s, appear: 2s}\ntasks: true\n"
	for _, tc := range []struct {
		at   time.Duration
		want []string
	}{
		{0, nil}, {time.Second, nil}, {2 * time.Second, []string{"gpu-1"}}, {3 * time.Second, []string{"gpu-1"}}, {4 * time.Second, []string{"gpu-1"}},
	} {
		r := newRig(t, config, nil)
		r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusAccepted)
		r.clock.Advance(tc.at)
		r.Close()
		r.clock.Advance(time.Hour)
		if diff := cmp.Diff(r.State(), r.kept); diff != "" {
			t.Errorf("closed after %v, state (-is +was kept):\n%s", tc.at, diff)
		}
		_, status := r.ask("GET", "/redfish/v1/", "")
		r.wantStatus("closed service", status, 0)
		next := newRig(t, config, &r.kept)
		var seen []string
		for _, d := range next.Sees("host-a") {
			seen = append(seen, d.Block)
		}
		if diff := cmp.Diff(tc.want, seen); diff != "" {
			t.Errorf("restarted after %v, host-a sees (-want +got):\n%s", tc.at, diff)
		}
		if _, status := next.ask("GET", "/redfish/v1/TaskService/TaskMonitors/1", ""); status != http.StatusNotFound {
			t.Errorf("the task is known after a restart: %d", status)
		}
	}
}

func TestTasks(t *testing.T) {
	r := newRig(t, "latency: {attach: 1s}\ntasks: true\nfaults: [{kind: fails, nth: 2}]", nil)
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusAccepted)
	r.wantStatus("attach", r.attach("host-a", "gpu-2"), http.StatusAccepted)
	const tasks, monitors = "/redfish/v1/TaskService/Tasks", "/redfish/v1/TaskService/TaskMonitors/"
	_, status := r.ask("GET", monitors+"1", "")
	r.wantStatus("going on", status, http.StatusAccepted)
	r.clock.Advance(time.Second)
	_, status = r.ask("GET", monitors+"1", "")
	r.wantStatus("done", status, http.StatusNoContent)
	_, status = r.ask("GET", monitors+"2", "")
	r.wantStatus("failed", status, http.StatusInternalServerError)
	answer, _ := r.ask("GET", tasks+"?$expand=.", "")
	var all struct{ Members []struct{ TaskState string } }
	if err := json.Unmarshal(answer.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, m := range all.Members {
		states = append(states, m.TaskState)
	}
	if diff := cmp.Diff([]string{"Completed", "Exception"}, states); diff != "" {
		t.Errorf("states of tasks (-want +got):\n%s", diff)
	}
}

func TestPages(t *testing.T) {
	r := newRig(t, "pageSize: 2\nwithout: [hostBlocks]", nil)
	var ids []string
	for next := "/redfish/v1/CompositionService/ResourceBlocks?$expand=.($levels=2)&$top=3"; next != ""; {
		answer, _ := r.ask("GET", next, "")
		var page struct {
			Members []struct {
				ID         string `json:"Id"`
				Processors []struct{ UUID string }
			}
			Next  string `json:"Members@odata.nextLink"`
			Count int    `json:"Members@odata.count"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Members {
			ids = append(ids, m.ID)
			if len(m.Processors) != 1 || m.Processors[0].UUID == "" {
				t.Errorf("%s: the processor is not expanded", m.ID)
			}
		}
		if page.Count != 3 || len(page.Members) > 2 {
			t.Errorf("a page has %d of %d members, want 2 of 3 at most", len(page.Members), page.Count)
		}
		next = page.Next
	}
	if !slices.Equal(ids, []string{"gpu-1", "gpu-2", "gpu-3"}) {
		t.Errorf("got %v, want all three once", ids)
	}
}

func TestAdmin(t *testing.T) {
	r := newRig(t, "", nil)
	ask := func(method, path, body, remote, host, kind string) (int, string) {
		q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		q.RemoteAddr, q.Host = remote, host
		q.Header.Set("Content-Type", kind)
		answer := httptest.NewRecorder()
		r.AdminHandler().ServeHTTP(answer, q)
		return answer.Code, answer.Body.String()
	}
	const here, name, kind = "127.0.0.1:5", "localhost:8444", "application/json"
	for _, tc := range []struct {
		method, path, body, remote, host, kind string
		want                                   int
	}{
		{"GET", "/faults", "", "192.0.2.1:5", name, kind, 403},
		{"GET", "/faults", "", here, "evil.example:8444", kind, 403},
		{"POST", "/faults", `{"kind": "busy"}`, here, name, "text/plain", 415},
		{"DELETE", "/faults", "", here, name, "", 415},
		{"POST", "/faults", `{"kind": "busy", "colour": 1}`, here, name, kind, 400},
		{"POST", "/faults", `{"kind": "busy"} {}`, here, name, kind, 400},
		{"POST", "/faults", `{"kind": "vanishes", "after": "1s"}`, here, name, kind, 200},
		{"GET", "/stats", "", "[::1]:5", "[::1]:8444", "", 200},
		{"POST", "/blocks/gpu-9/vanish", "", here, name, kind, 404},
		{"POST", "/blocks/gpu-1/reserve", "", here, name, kind, 204},
		{"POST", "/blocks/gpu-1/release", "", here, name, kind, 204},
		{"POST", "/blocks/gpu-1/vanish", "", here, name, kind, 204},
		{"POST", "/blocks/gpu-1/repair", "", here, name, kind, 204},
		{"POST", "/sessions/expire", "", here, name, kind, 204},
	} {
		code, body := ask(tc.method, tc.path, tc.body, tc.remote, tc.host, tc.kind)
		if code != tc.want {
			t.Errorf("%s %s from %s to %s: %d %s, want %d", tc.method, tc.path, tc.remote, tc.host, code, body, tc.want)
		}
	}
	for body, want := range map[string]string{
		`{"kind": "busy"`:                     `fault: want one in JSON, such as {"kind": "busy", "operation": "attach"}: unexpected EOF`,
		"":                                    "fault: want one in JSON",
		`{"kind": "vanishes", "after": 1}`:    "fault: after: 1 is not a duration",
		`{"kind": "busy", "retryAfter": "s"}`: `fault: retryAfter: "s" is not a duration`,
	} {
		if code, got := ask("POST", "/faults", body, here, name, kind); code != 400 || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %d %s, want %q", body, code, got, want)
		}
	}
	if got := r.Faults(); len(got) != 1 || got[0].After != description.Duration(time.Second) {
		t.Errorf("the script is %+v, want the one good fault", got)
	}
	r.wantStatus("attach", r.attach("host-a", "gpu-1"), http.StatusNoContent)
	var sights []service.Sight
	if _, body := ask("GET", "/hosts", "", here, name, ""); json.Unmarshal([]byte(body), &sights) != nil || len(sights) != 2 || sights[0].Devices[0].Block != "gpu-1" {
		t.Errorf("hosts see %s", body)
	}
	if code, _ := ask("DELETE", "/faults", "", here, name, kind); code != 200 || len(r.Faults()) != 0 {
		t.Errorf("the script was not ended: %d", code)
	}
}

func TestManualClock(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := service.NewManualClock(start)
	var log []string
	note := func(what string) func() {
		return func() { log = append(log, fmt.Sprintf("%s at %v", what, clock.Now().Sub(start))) }
	}
	clock.AfterFunc(2*time.Second, note("second"))
	clock.AfterFunc(time.Second, func() {
		note("first")()
		clock.AfterFunc(time.Second, note("third"))
		clock.AfterFunc(time.Minute, note("never"))
	})
	stop := clock.AfterFunc(time.Second, note("stopped"))
	stop()
	clock.Advance(3 * time.Second)
	if diff := cmp.Diff([]string{"first at 1s", "second at 2s", "third at 2s"}, log); diff != "" {
		t.Errorf("timers (-want +got):\n%s", diff)
	}
	if got := clock.Now().Sub(start); got != 3*time.Second {
		t.Errorf("the clock stands at %v, want 3s", got)
	}
}
