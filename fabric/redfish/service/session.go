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

// authorised tells whether a request may see more than the service root. The caller holds the lock.
func (s *Service) authorised(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		now := s.clock.Now()
		for id, session := range s.sessions {
			switch {
			case now.Sub(session.used) >= sessionTimeout:
				delete(s.sessions, id)
			case same(session.token, token):
				session.used = now
				return true
			}
		}
		return false
	}
	name, password, ok := r.BasicAuth()
	return ok && s.knows(name, password)
}

func (s *Service) knows(name, password string) bool {
	// Both are compared, so that the time tells nothing.
	known, right := same(name, s.options.Username), same(password, s.options.Password)
	return known && right
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// ExpireSessions ends all sessions, as a service does that was restarted: clients have to log in again.
func (s *Service) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Sessions is the number of sessions that were made and neither ended nor used up their time.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Service) postSession(_ *http.Request, body []byte) (*reply, *refusal) {
	var login struct{ UserName, Password string }
	if err := json.Unmarshal(body, &login); err != nil {
		return nil, malformed(err)
	}
	struck := s.struck(call{operation: description.OperationLogin})
	if struck.has(description.FaultLostRequest) {
		return nil, &refusal{dropped: true}
	}
	if r := struck.refusal(s.retryAfter()); r != nil {
		return nil, r
	}
	if !s.knows(login.UserName, login.Password) {
		return nil, &refusal{status: http.StatusUnauthorized, message: "user name or password is wrong"}
	}
	for id, old := range s.sessions {
		if s.clock.Now().Sub(old.used) >= sessionTimeout {
			delete(s.sessions, id)
		}
	}
	made := &session{id: rand.Text(), token: rand.Text(), used: s.clock.Now()}
	s.sessions[made.id] = made
	s.stats.Logins++
	header := http.Header{}
	header.Set("X-Auth-Token", made.token)
	header.Set("Location", sessionsPath+"/"+made.id)
	return &reply{status: http.StatusCreated, header: header, body: s.sessionResource(made), dropped: struck.has(description.FaultLostReply)}, nil
}

func (s *Service) deleteSession(r *http.Request, _ []byte) (*reply, *refusal) {
	id := r.PathValue("session")
	if s.sessions[id] == nil {
		return nil, notFound(r)
	}
	delete(s.sessions, id)
	return &reply{status: http.StatusNoContent}, nil
}

func (s *Service) getSessions(*http.Request) (resource, *refusal) {
	var members []resource
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		members = append(members, s.sessionResource(s.sessions[id]))
	}
	return collection(sessionsPath, "SessionCollection.SessionCollection", members), nil
}

func (s *Service) getSession(r *http.Request) (resource, *refusal) {
	if session := s.sessions[r.PathValue("session")]; session != nil {
		return s.sessionResource(session), nil
	}
	return nil, notFound(r)
}

// sessionResource has no token and no password: both are told once, if at all.
func (s *Service) sessionResource(session *session) resource {
	return resource{
		"@odata.id": sessionsPath + "/" + session.id, "@odata.type": "#Session.v1_7_0.Session",
		"Id": session.id, "Name": "Session", "UserName": s.options.Username,
	}
}
