// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

// ways are the ways that services offer to attach a device.
var ways = []struct {
	name    string
	without []string
}{
	{name: "action"},
	{name: "action without ActionInfo", without: []string{description.FeatureActionInfo}},
	{name: "PATCH of the system", without: []string{description.FeatureActions}},
	{name: "no ETags", without: []string{description.FeatureETags}},
	{name: "PATCH without ETags and reservations", without: []string{description.FeatureActions, description.FeatureETags, description.FeatureReserve}},
}

func TestAttachAndDetach(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config := shelf()
			config.Without = way.without
			r := newRig(t, config)
			r.want("first attach", says(r.attach("gpu-1", "host-a")), "Done")
			r.want("second attach", says(r.attach("gpu-2", "host-a")), "Done")
			r.want("gpu-1", r.at("gpu-1"), "host-a")
			r.want("gpu-1 is seen by", r.seenBy("gpu-1"), "host-a")
			r.want("gpu-2 is seen by", r.seenBy("gpu-2"), "host-a")
			r.want("attach what is there", says(r.attach("gpu-1", "host-a")), "Done")
			r.want("attach what is elsewhere", says(r.attach("gpu-1", "host-b")), "refused")
			r.want("detach what is elsewhere", says(r.detach("gpu-1", "host-b")), "refused")
			r.want("detach", says(r.detach("gpu-1", "host-a")), "Done")
			r.want("detach what is free", says(r.detach("gpu-1", "host-a")), "Done")
			r.want("gpu-1 is seen by", r.seenBy("gpu-1"), "")
			r.want("gpu-2 is seen by", r.seenBy("gpu-2"), "host-a")
			r.want("gpu-1", r.at("gpu-1"), "free")
			if r.kept("gpu-1") {
				t.Error("gpu-1 is still reserved after it was detached")
			}
			r.want("attach to another", says(r.attach("gpu-1", "host-b")), "Done")
		})
	}
}

func TestAttachWithTasks(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config := shelf()
			config.Without, config.Tasks = way.without, true
			config.Latency = description.Latency{Attach: description.Duration(10 * time.Second), Detach: description.Duration(5 * time.Second)}
			r := newRig(t, config)
			o, err := r.attach("gpu-1", "host-a")
			r.want("attach", says(o, err), "Running")
			r.want("on the way", r.at("gpu-1"), "free busy")
			r.want("another attach", says(r.attach("gpu-1", "host-b")), "busy")
			r.clock.Advance(9 * time.Second)
			r.want("operation", says(r.Operation(t.Context(), o.ID)), "Running")
			r.clock.Advance(time.Second)
			r.want("operation", says(r.Operation(t.Context(), o.ID)), "Done")
			r.want("gpu-1", r.at("gpu-1"), "host-a")
			r.want("gpu-1 is seen by", r.seenBy("gpu-1"), "host-a")

			o, err = r.detach("gpu-1", "host-a")
			r.want("detach", says(o, err), "Running")
			r.clock.Advance(5 * time.Second)
			r.want("operation", says(r.Operation(t.Context(), o.ID)), "Done")
			r.want("gpu-1", r.at("gpu-1"), "free")
			if r.kept("gpu-1") {
				t.Error("gpu-1 is still reserved after it was detached and the inventory read")
			}
		})
	}
}

// TestFaults has every fault happen to an attach, in every way to attach, and asks what the caller learns and what is
// the truth.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		fault  description.Fault
		tasks  bool
		says   string
		at     string // in the inventory
		seenBy string
	}{
		{fault: description.Fault{Kind: description.FaultBusy}, says: "busy", at: "free"},
		{fault: description.Fault{Kind: description.FaultRefused}, says: "refused", at: "free"},
		{fault: description.Fault{Kind: description.FaultRefused, Status: 507}, says: "refused", at: "free"},
		{fault: description.Fault{Kind: description.FaultLostRequest}, says: "unknown outcome", at: "free"},
		{fault: description.Fault{Kind: description.FaultLostReply}, says: "unknown outcome", at: "host-a", seenBy: "host-a"},
		{fault: description.Fault{Kind: description.FaultLostReply}, tasks: true, says: "unknown outcome", at: "host-a", seenBy: "host-a"},
		{fault: description.Fault{Kind: description.FaultFails}, says: "unknown outcome", at: "free"},
		{fault: description.Fault{Kind: description.FaultFails}, tasks: true, says: "Failed", at: "free"},
		{fault: description.Fault{Kind: description.FaultForgetsTask}, tasks: true, says: "unknown operation", at: "host-a", seenBy: "host-a"},
		{fault: description.Fault{Kind: description.FaultWrongHost, To: "host-b"}, says: "Done", at: "host-b", seenBy: "host-b"},
		{fault: description.Fault{Kind: description.FaultNeverAppears}, says: "Done", at: "host-a"},
		{fault: description.Fault{Kind: description.FaultVanishes}, says: "Done", at: "host-a unhealthy"},
	} {
		for _, way := range ways {
			t.Run(fmt.Sprintf("%s/tasks=%v/%s", tc.fault.Kind, tc.tasks, way.name), func(t *testing.T) {
				config := shelf()
				config.Tasks, config.Without = tc.tasks, way.without
				r := newRig(t, config)
				r.fault(tc.fault)
				o, err := r.attach("gpu-1", "host-a")
				if err == nil && o.State == fabric.Running {
					o, err = r.Operation(t.Context(), o.ID)
				}
				r.want("attach", says(o, err), tc.says)
				if tc.at == "free" && (tc.says == "busy" || tc.says == "refused") && r.kept("gpu-1") {
					t.Error("nothing was done, yet it is reserved")
				}
				r.want("inventory", r.at("gpu-1"), tc.at)
				r.want("seen by", r.seenBy("gpu-1"), tc.seenBy)
				if tc.at == "free" && r.kept("gpu-1") {
					t.Error("it is free for good, yet it is reserved")
				}
				if tc.at == "free" {
					r.want("next attach", says(final(r, "gpu-1", "host-a")), "Done")
				}
			})
		}
	}
}

func final(r *rig, device, host string) (fabric.Operation, error) {
	o, err := r.attach(device, host)
	if err == nil && o.State == fabric.Running {
		return r.Operation(r.t.Context(), o.ID)
	}
	return o, err
}

// TestDetachFaults is the same for a detach.
func TestDetachFaults(t *testing.T) {
	for _, tc := range []struct {
		kind     description.FaultKind
		says, at string
	}{
		{description.FaultBusy, "busy", "host-a"},
		{description.FaultRefused, "refused", "host-a"},
		{description.FaultLostRequest, "unknown outcome", "host-a"},
		{description.FaultLostReply, "unknown outcome", "free"},
		{description.FaultFails, "unknown outcome", "host-a"},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			r := newRig(t, shelf())
			r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
			r.fault(description.Fault{Kind: tc.kind, Operation: description.OperationDetach})
			r.want("detach", says(r.detach("gpu-1", "host-a")), tc.says)
			r.want("inventory", r.at("gpu-1"), tc.at)
			r.want("next detach", says(r.detach("gpu-1", "host-a")), "Done")
			r.want("inventory", r.at("gpu-1"), "free")
			if r.kept("gpu-1") {
				t.Error("gpu-1 is still reserved")
			}
		})
	}
}

// TestStatusCodes answers the action with every status code that a service can think of.
func TestStatusCodes(t *testing.T) {
	want := map[string][]int{
		"Done":            {200, 201, 204},
		"Running":         {202},
		"refused":         {301, 307, 308, 400, 403, 404, 405, 406, 409, 410, 412, 413, 415, 422, 428, 431, 501, 505, 507},
		"busy":            {401, 408, 423, 429, 503},
		"unknown outcome": {500, 502, 504, 599},
	}
	for outcome, statuses := range want {
		for _, status := range statuses {
			t.Run(fmt.Sprint(status), func(t *testing.T) {
				r := newRig(t, shelf())
				r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
					if q.Method != http.MethodPost || !strings.Contains(q.URL.Path, "/Actions/") {
						return false
					}
					w.Header().Set("Location", "https://elsewhere.example/redfish/v1/TaskService/TaskMonitors/9?x=1")
					w.Header().Set("Retry-After", "3")
					w.WriteHeader(status)
					return true
				})
				o, err := r.attach("gpu-1", "host-a")
				r.want("attach", says(o, err), outcome)
				if outcome == "Running" && o.ID != "/redfish/v1/TaskService/TaskMonitors/9?x=1" {
					t.Errorf("operation is %q, want the path of the task monitor", o.ID)
				}
				if (outcome == "busy" || outcome == "refused") && r.kept("gpu-1") {
					t.Error("nothing was done, yet it is reserved")
				}
				if outcome == "busy" {
					checkRetryAfter(t, err, 3*time.Second)
				}
			})
		}
	}
}

func checkRetryAfter(t *testing.T, err error, want time.Duration) {
	t.Helper()
	var busy *fabric.BusyError
	if errors.As(err, &busy) && busy.RetryAfter != want {
		t.Errorf("retry after %v, want %v", busy.RetryAfter, want)
	}
}

func TestOperationStatusCodes(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   string
	}{
		{202, ``, "Running"},
		{200, ``, "Done"},
		{204, ``, "Done"},
		{200, `{"TaskState": "Running"}`, "Running"},
		{200, `{"TaskState": "Completed"}`, "Done"},
		{200, `{"TaskState": "Exception", "Messages": [{"Message": "it burns"}]}`, "Failed"},
		{200, `{"TaskState": "Cancelled"}`, "Failed"},
		{400, ``, "Failed"},
		{409, ``, "Failed"},
		{500, ``, "Failed"},
		{404, ``, "unknown operation"},
		{410, ``, "unknown operation"},
		{503, ``, "busy"},
		{502, ``, "unknown outcome"},
	} {
		t.Run(fmt.Sprintf("%d %s", tc.status, tc.body), func(t *testing.T) {
			r := newRig(t, shelf())
			r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.Contains(q.URL.Path, "TaskMonitors") {
					return false
				}
				w.WriteHeader(tc.status)
				_, _ = fmt.Fprint(w, tc.body)
				return true
			})
			o, err := r.Operation(t.Context(), "/redfish/v1/TaskService/TaskMonitors/1")
			r.want("operation", says(o, err), tc.want)
			if strings.Contains(tc.body, "burns") && o.Message != "it burns" {
				t.Errorf("message is %q, want the service's own", o.Message)
			}
		})
	}
}

func TestOperationWithoutHandle(t *testing.T) {
	r := newRig(t, shelf())
	r.want("no id", says(r.Operation(t.Context(), "")), "unknown operation")
	r.want("an id that is no path", says(r.Operation(t.Context(), "@elsewhere.example/x")), "unknown operation")
}

// TestTimeoutOfAttach lets the caller go while the service works.
func TestTimeoutOfAttach(t *testing.T) {
	config := shelf()
	config.Latency.Attach = description.Duration(time.Minute)
	r := newRig(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string)
	go func() { done <- says(r.Attach(ctx, blocks+"gpu-1", systems+"host-a")) }()
	if err := r.clock.AwaitTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	r.want("attach", <-done, "unknown outcome")
	r.want("inventory", r.at("gpu-1"), "free busy")
	r.clock.Advance(time.Minute)
	r.want("inventory", r.at("gpu-1"), "host-a")
}

func TestRefusals(t *testing.T) {
	config := shelf()
	config.Hosts = append(config.Hosts, description.Host{ID: "host-c", Zones: []string{"right"}})
	r := newRig(t, config)
	r.want("other zone", says(r.attach("gpu-1", "host-c")), "refused")
	r.want("no such device", says(r.attach("gpu-9", "host-a")), "refused")
	r.want("no such machine", says(r.attach("gpu-1", "host-z")), "refused")
	r.want("a machine's block", says(r.attach("host-b", "host-a")), "refused")
	r.want("a device that is no path", says(r.Attach(t.Context(), "@elsewhere.example/", systems+"host-a")), "refused")
	r.want("detach, no such device", says(r.detach("gpu-9", "host-a")), "refused")
	if r.kept("gpu-1") {
		t.Error("nothing was done, yet gpu-1 is reserved")
	}
	_, err := r.attach("gpu-1", "host-c")
	if want := "resource block gpu-1 is in no zone of system host-c"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want the service's own words: %s", err, want)
	}
}

func TestServiceIsFull(t *testing.T) {
	config := shelf()
	config.Tasks = true
	config.Latency.Attach = description.Duration(time.Second)
	config.Limits = description.Limits{Concurrent: 1, RetryAfter: description.Duration(4 * time.Second)}
	r := newRig(t, config)
	r.want("first", says(r.attach("gpu-1", "host-a")), "Running")
	o, err := r.attach("gpu-2", "host-b")
	r.want("second", says(o, err), "busy")
	checkRetryAfter(t, err, 4*time.Second)
	if r.kept("gpu-2") {
		t.Error("nothing was done, yet gpu-2 is reserved")
	}
	r.clock.Advance(time.Second)
	r.want("second again", says(r.attach("gpu-2", "host-b")), "Running")
	if got := r.service.Stats().MaxOperations; got != 1 {
		t.Errorf("%d operations were going on at once, want 1", got)
	}
	if r.Limits() != (fabric.Limits{Concurrent: 4, PerMachine: 1}) {
		t.Errorf("limits are %+v, want those of the options", r.Limits())
	}
}

// TestActionInfo has the parameters sent as the service describes them.
func TestActionInfo(t *testing.T) {
	const device = blocks + "gpu-1"
	for _, tc := range []struct{ name, parameters, want string }{
		{"a link", `{"Name": "ResourceBlock", "DataType": "Object"}`, `{"ResourceBlock":{"@odata.id":"` + device + `"}}`},
		{"a string", `{"Name": "ResourceBlock", "DataType": "String"}`, `{"ResourceBlock":"` + device + `"}`},
		{"an optional ETag of the system", `{"Name": "ComputerSystemETag"}`, `{"ResourceBlock":{"@odata.id":"` + device + `"}}`},
		{"a required one", `{"Name": "ComputerSystemETag", "Required": true}`, `{"ComputerSystemETag":ETAG,"ResourceBlock":{"@odata.id":"` + device + `"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			got := ""
			r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
				switch {
				case strings.HasSuffix(q.URL.Path, "AddResourceBlockActionInfo"):
					_, _ = fmt.Fprintf(w, `{"Parameters": [%s]}`, tc.parameters)
				case strings.HasSuffix(q.URL.Path, ".AddResourceBlock"):
					body, err := io.ReadAll(q.Body)
					if err != nil {
						t.Error(err)
					}
					got = regexp.MustCompile(`"\\"[0-9a-f]{16}\\""`).ReplaceAllString(string(body), "ETAG")
				default:
					return false
				}
				return true
			})
			r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
			r.want("parameters", got, tc.want)
		})
	}
}

// TestActionInfoCannotBeRead fails after the device was reserved and before anything else was done.
func TestActionInfoCannotBeRead(t *testing.T) {
	for _, tc := range []struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		{func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, "busy"},
		{func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "busy"},
		{func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "refused"},
	} {
		r := newRig(t, shelf())
		r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
			info := strings.HasSuffix(q.URL.Path, "ActionInfo")
			if info {
				tc.answer(w)
			}
			return info
		})
		r.want("attach", says(r.attach("gpu-1", "host-a")), tc.want)
		if r.kept("gpu-1") {
			t.Error("nothing was done, yet it is reserved")
		}
	}
}

// TestReservationOutlivesDetach cannot give the reservation back when the device is detached.
func TestReservationOutlivesDetach(t *testing.T) {
	r := newRig(t, shelf())
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	r.fault(description.Fault{Kind: description.FaultBusy, Operation: description.OperationRelease, Times: 2})
	o, err := r.detach("gpu-1", "host-a")
	r.want("detach", says(o, err), "Done")
	if !strings.Contains(o.Message, "give back the reservation") {
		t.Errorf("message is %q, want what is left to do", o.Message)
	}
	r.want("inventory that cannot give it back", r.at("gpu-1"), "free busy")
	r.want("inventory that can", r.at("gpu-1"), "free")
}

// TestServiceIsKilled cuts the connections while the service works.
func TestServiceIsKilled(t *testing.T) {
	config := shelf()
	config.Latency.Attach = description.Duration(time.Minute)
	r := newRig(t, config)
	made := certificates(t)
	server, err := service.Listen(t.Context(), "127.0.0.1:0", r.service.Handler(), &made.certificate, quiet)
	if err != nil {
		t.Fatal(err)
	}
	r.options.Endpoint = "https://" + server.Address
	r.connect()
	done := make(chan string)
	go func() { done <- says(r.attach("gpu-1", "host-a")) }()
	if err := r.clock.AwaitTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Error(err)
	}
	r.want("attach", <-done, "unknown outcome")
	r.service.Close()
	r.want("attach when it is down", says(r.attach("gpu-2", "host-a")), "busy")
}

// TestSystemChangesMeanwhile has another client change the list of blocks between our reading and writing it.
func TestSystemChangesMeanwhile(t *testing.T) {
	config := shelf()
	config.Without = []string{description.FeatureActions}
	r := newRig(t, config)
	meddled := false
	r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPatch && q.URL.Path == systems+"host-a" && !meddled {
			meddled = true
			if err := r.service.Compose("gpu-2", "host-a"); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
	r.want("attach again", says(r.attach("gpu-1", "host-a")), "Done")
	r.want("gpu-2", r.at("gpu-2"), "host-a")
}

func TestServiceRestarts(t *testing.T) {
	config := shelf()
	config.Tasks = true
	config.Latency.Attach = description.Duration(time.Second)
	r := newRig(t, config)
	o, err := r.attach("gpu-1", "host-a")
	r.want("attach", says(o, err), "Running")
	r.clock.Advance(time.Second)
	lost, err := r.attach("gpu-2", "host-b")
	r.want("attach", says(lost, err), "Running")
	state := r.service.State()
	r.service.Close()
	r.serve(config, &state)
	r.want("operation", says(r.Operation(t.Context(), o.ID)), "unknown operation")
	r.want("gpu-1", r.at("gpu-1"), "host-a")
	r.want("gpu-1 is seen by", r.seenBy("gpu-1"), "host-a")
	r.want("gpu-2", r.at("gpu-2"), "free")
	if r.kept("gpu-2") {
		t.Error("gpu-2 is still reserved by an attach that never happened")
	}
	again, err := r.attach("gpu-3", "host-b")
	r.want("attach", says(again, err), "Running")
	if again.ID == lost.ID || again.ID == o.ID {
		t.Errorf("operation %s means two attaches", again.ID)
	}
}

func TestServiceIsDown(t *testing.T) {
	r := newRig(t, shelf())
	r.want("gpu-1", r.at("gpu-1"), "free")
	r.server.Close()
	r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
	_, err := r.Inventory(t.Context())
	r.want("inventory", says(fabric.Operation{}, err), "unknown outcome")
}

func TestOneCallPerDevice(t *testing.T) {
	config := shelf()
	config.Latency.Attach = description.Duration(time.Second)
	r := newRig(t, config)
	done := make(chan string)
	go func() { done <- says(r.attach("gpu-1", "host-a")) }()
	if err := r.clock.AwaitTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.service.ResetStats()
	r.want("the same device", says(r.attach("gpu-1", "host-b")), "busy")
	if n := r.service.Stats().Total; n != 0 {
		t.Errorf("the second call sent %d requests, want none", n)
	}
	r.clock.Advance(time.Second)
	r.want("first", <-done, "Done")
}
