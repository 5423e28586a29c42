// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

// The paths of the service.
const (
	rootPath        = "/redfish/v1"
	sessionsPath    = rootPath + "/SessionService/Sessions"
	systemsPath     = rootPath + "/Systems"
	compositionPath = rootPath + "/CompositionService"
	blocksPath      = compositionPath + "/ResourceBlocks"
	zonesPath       = compositionPath + "/ResourceZones"
	tasksPath       = rootPath + "/TaskService/Tasks"
	monitorsPath    = rootPath + "/TaskService/TaskMonitors"
	addAction       = "/Actions/ComputerSystem.AddResourceBlock"
	removeAction    = "/Actions/ComputerSystem.RemoveResourceBlock"
)

// maxBody limits what a client can send, in bytes.
const maxBody = 1 << 20

// reply is an answer that says yes.
type reply struct {
	status  int // 200 if 0
	header  http.Header
	body    resource
	work    *operation // if not nil, the reply is made when it has ended
	dropped bool       // the client never gets it
}

// refusal is an answer that says no.
type refusal struct {
	status     int
	message    string
	retryAfter time.Duration // no header if 0
	dropped    bool          // the client gets no answer at all
}

func notFound(r *http.Request) *refusal {
	return &refusal{status: http.StatusNotFound, message: fmt.Sprintf("there is nothing at %s", r.URL.Path)}
}

func malformed(err error) *refusal {
	return &refusal{status: http.StatusBadRequest, message: "the body is not what was expected: " + err.Error()}
}

// endpoint serves one method and path with the lock held. Body is nil unless the method has one.
type endpoint func(r *http.Request, body []byte) (*reply, *refusal)

// Handler serves Redfish below /redfish.
func (s *Service) Handler() http.Handler { return s.handler }

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	open := func(pattern string, e endpoint) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, pattern, false, e) })
	}
	closed := func(pattern string, e endpoint) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, pattern, true, e) })
	}
	get := func(path string, get func(*http.Request) resource) { closed("GET "+path, s.reading(get)) }
	open("GET /redfish", s.reading(s.getVersions))
	open("GET "+rootPath, s.reading(s.getRoot))
	open("GET "+rootPath+"/{$}", s.reading(s.getRoot))
	open("POST "+sessionsPath, s.postSession)
	get(rootPath+"/SessionService", s.sessions.getService)
	get(sessionsPath, s.sessions.getAll)
	get(sessionsPath+"/{session}", s.sessions.get)
	closed("DELETE "+sessionsPath+"/{session}", s.sessions.delete)
	get(systemsPath, s.shelf.getSystems)
	get(systemsPath+"/{system}", s.shelf.getSystem)
	closed("PATCH "+systemsPath+"/{system}", s.patchSystem)
	closed("POST "+systemsPath+"/{system}"+addAction, s.postAction(description.OperationAttach))
	closed("POST "+systemsPath+"/{system}"+removeAction, s.postAction(description.OperationDetach))
	get(systemsPath+"/{system}/{action}", s.shelf.getActionInfo)
	get(compositionPath, s.shelf.getCompositionService)
	get(blocksPath, s.shelf.getBlocks)
	get(blocksPath+"/{block}", s.shelf.getBlock)
	closed("PATCH "+blocksPath+"/{block}", s.patchBlock)
	get(blocksPath+"/{block}/{kind}/{device}", s.shelf.getBlockDevice)
	get(zonesPath, s.shelf.getZones)
	get(zonesPath+"/{zone}", s.shelf.getZone)
	get(rootPath+"/TaskService", s.tasks.getService)
	get(tasksPath, s.tasks.getAll)
	get(tasksPath+"/{task}", s.tasks.get)
	closed("GET "+monitorsPath+"/{task}", s.tasks.getMonitor)
	closed("/", func(r *http.Request, _ []byte) (*reply, *refusal) { return nil, notFound(r) })
	return mux
}

// serve does what all requests have in common. It panics with http.ErrAbortHandler where the client gets no answer.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, pattern string, closed bool, e endpoint) {
	s.delay(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.write(w, r, nil, malformed(err))
		return
	}
	answer, refused := s.locked(r, pattern, closed, body, e)
	s.tell()
	if refused == nil && answer.work != nil {
		select {
		case <-answer.work.done:
			answer, refused = answer.ended()
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-s.closing:
			panic(http.ErrAbortHandler)
		}
		s.tell()
	}
	s.write(w, r, answer, refused)
}

func (s *Service) locked(r *http.Request, pattern string, closed bool, body []byte, e endpoint) (*reply, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &refusal{dropped: true}
	}
	s.stats.Requests[pattern]++
	s.stats.Total++
	if closed && !s.sessions.authorised(r) {
		return nil, &refusal{status: http.StatusUnauthorized, message: "log in: there is no valid session or password"}
	}
	answer, refused := e(r, body)
	if refused == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.changed()
	}
	return answer, refused
}

// delay lets the latency of a request pass.
func (s *Service) delay(r *http.Request) {
	passed := make(chan struct{})
	s.mu.Lock()
	s.after(s.config.Latency.Request, func() { close(passed) })
	s.mu.Unlock()
	select {
	case <-passed:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.closing:
		panic(http.ErrAbortHandler)
	}
}

// reading makes an endpoint of what returns a resource, nil where there is none.
func (s *Service) reading(get func(*http.Request) resource) endpoint {
	return func(r *http.Request, _ []byte) (*reply, *refusal) {
		if refused := s.script.struck(call{operation: description.OperationRead}).refusalToTell(); refused != nil {
			return nil, refused
		}
		body := get(r)
		if body == nil {
			return nil, notFound(r)
		}
		body, refused := s.query(r, body)
		if refused != nil {
			return nil, refused
		}
		answer := s.shown(body)
		if tag := answer.header.Get("ETag"); tag != "" && listed(r.Header.Values("If-None-Match"), tag) {
			return &reply{status: http.StatusNotModified, header: answer.header}, nil
		}
		return answer, nil
	}
}

// shown is the reply with a resource as it is now.
func (s *Service) shown(body resource) *reply {
	header := http.Header{}
	if tag, ok := s.tagged(body)["@odata.etag"].(string); ok {
		header.Set("ETag", tag)
	}
	return &reply{header: header, body: body}
}

// precondition is the refusal of a change to a resource that is not as the client thinks, or nil.
func (s *Service) precondition(r *http.Request, current resource) *refusal {
	wanted := r.Header.Values("If-Match")
	if !s.config.Has(description.FeatureETags) || len(wanted) == 0 || listed(wanted, etag(current)) {
		return nil
	}
	return &refusal{status: http.StatusPreconditionFailed, message: "the resource has changed: its ETag is not that of If-Match"}
}

// listed tells whether one of the ETags in a header is the given one.
func listed(header []string, tag string) bool {
	for _, line := range header {
		for _, each := range strings.Split(line, ",") {
			each = strings.TrimPrefix(strings.TrimSpace(each), "W/")
			if each == "*" || each == tag {
				return true
			}
		}
	}
	return false
}

func (s *Service) write(w http.ResponseWriter, r *http.Request, answer *reply, refused *refusal) {
	status, header, body := http.StatusOK, http.Header{}, resource(nil)
	switch {
	case refused != nil && refused.dropped, refused == nil && answer.dropped:
		panic(http.ErrAbortHandler)
	case refused != nil:
		status, body = refused.status, refused.resource()
		if refused.retryAfter > 0 {
			// Whole seconds, and never none: the header has no smaller unit.
			header.Set("Retry-After", strconv.Itoa(max(1, int((refused.retryAfter+time.Second-1)/time.Second))))
		}
		if status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Basic realm="Redfish"`)
		}
	default:
		header, body = answer.header, answer.body
		if answer.status != 0 {
			status = answer.status
		}
	}
	for name, values := range header {
		w.Header()[name] = slices.Clone(values)
	}
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Cache-Control", "no-store")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// An error here is the client's, who has gone.
		_ = json.NewEncoder(w).Encode(body)
	}
}

// resource is the body of an answer that says no.
func (r *refusal) resource() resource {
	id := "Base.1.18.GeneralError"
	switch r.status {
	case http.StatusConflict:
		id = "Base.1.18.ResourceInUse"
	case http.StatusNotFound:
		id = "Base.1.18.ResourceMissingAtURI"
	case http.StatusPreconditionFailed, http.StatusPreconditionRequired:
		id = "Base.1.18.PreconditionFailed"
	case http.StatusServiceUnavailable:
		id = "Base.1.18.ServiceTemporarilyUnavailable"
	}
	return resource{"error": resource{
		"code": id, "message": r.message,
		"@Message.ExtendedInfo": []resource{{"MessageId": id, "Message": r.message, "MessageSeverity": "Critical"}},
	}}
}
