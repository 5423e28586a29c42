// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

// sessionTimeout is how long a session lives without a request.
const sessionTimeout = 30 * time.Minute

type session struct {
	id    string
	token string
	used  time.Time
}

// sessions are those that were made and did not end, and who may make them.
type sessions struct {
	username, password string
	clock              Clock
	open               map[string]*session
}

// expire ends the sessions that have used up their time.
func (s *sessions) expire() {
	maps.DeleteFunc(s.open, func(_ string, each *session) bool { return s.clock.Now().Sub(each.used) >= sessionTimeout })
}

// authorised tells whether a request may see more than the service root.
func (s *sessions) authorised(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		s.expire()
		for _, session := range s.open {
			if same(session.token, token) {
				session.used = s.clock.Now()
				return true
			}
		}
		return false
	}
	name, password, ok := r.BasicAuth()
	return ok && s.knows(name, password)
}

func (s *sessions) knows(name, password string) bool {
	// Both are compared, so that the time tells nothing.
	known, right := same(name, s.username), same(password, s.password)
	return known && right
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// ExpireSessions ends all sessions, as a service does that was restarted: clients have to log in again.
func (s *Service) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions.open)
}

// Sessions is the number of sessions that were made and neither ended nor used up their time.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions.open)
}

func (s *Service) postSession(_ *http.Request, body []byte) (*reply, *refusal) {
	var login struct{ UserName, Password string }
	if err := json.Unmarshal(body, &login); err != nil {
		return nil, malformed(err)
	}
	struck := s.script.struck(call{operation: description.OperationLogin})
	if r := struck.refusal(); r != nil {
		return nil, r
	}
	if !s.sessions.knows(login.UserName, login.Password) {
		return nil, &refusal{status: http.StatusUnauthorized, message: "user name or password is wrong"}
	}
	s.sessions.expire()
	made := &session{id: rand.Text(), token: rand.Text(), used: s.options.Clock.Now()}
	s.sessions.open[made.id] = made
	s.stats.Logins++
	header := http.Header{}
	header.Set("X-Auth-Token", made.token)
	header.Set("Location", sessionsPath+"/"+made.id)
	return &reply{status: http.StatusCreated, header: header, body: s.sessions.resource(made), dropped: struck.has(description.FaultLostReply)}, nil
}

func (s *sessions) delete(r *http.Request, _ []byte) (*reply, *refusal) {
	id := r.PathValue("session")
	if s.open[id] == nil {
		return nil, notFound(r)
	}
	delete(s.open, id)
	return &reply{status: http.StatusNoContent}, nil
}

func (s *sessions) getService(*http.Request) resource {
	return resource{
		"@odata.id": rootPath + "/SessionService", "@odata.type": "#SessionService.v1_1_9.SessionService",
		"Id": "SessionService", "Name": "Session Service", "ServiceEnabled": true,
		"SessionTimeout": int(sessionTimeout.Seconds()), "Sessions": link(sessionsPath),
	}
}

func (s *sessions) getAll(*http.Request) resource {
	ids := slices.Sorted(maps.Keys(s.open))
	return collection(sessionsPath, "SessionCollection", ids, func(id string) resource { return s.resource(s.open[id]) })
}

func (s *sessions) get(r *http.Request) resource {
	if session := s.open[r.PathValue("session")]; session != nil {
		return s.resource(session)
	}
	return nil
}

// resource has no token and no password: both are told once, if at all.
func (s *sessions) resource(session *session) resource {
	return resource{
		"@odata.id": sessionsPath + "/" + session.id, "@odata.type": "#Session.v1_7_0.Session",
		"Id": session.id, "Name": "Session", "UserName": s.username,
	}
}
