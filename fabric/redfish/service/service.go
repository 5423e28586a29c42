// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

// Options are what a service needs beside its description.
type Options struct {
	// Username and Password are required of clients and must not be empty.
	Username, Password string
	// Clock is the time; that of the world if nil.
	Clock Clock
	// Observer, if not nil, is told what a host sees, whenever that changes, and once at the start for each host that
	// sees something. It must not call what changes the service.
	Observer func(Sight)
	// State is what a service of the same description had when it was stopped; nil: that of the description.
	State *State
	// Persist, if not nil, is given the state whenever it has changed, before the client is answered. It is not called
	// concurrently and must not call the service.
	Persist func(State)
}

// Service is a simulated Redfish service. Its methods may be called concurrently. It has the lock, the time and HTTP;
// what its parts are asked, they are asked with the lock held.
type Service struct {
	config  description.Config
	options Options
	handler http.Handler
	closing chan struct{}

	// observing is held while the observer is called, so that it hears one change after the other.
	observing sync.Mutex

	mu       sync.Mutex
	closed   bool
	timers   map[*timer]bool
	callback sync.WaitGroup // timers that are being served
	shelf    *shelf
	script   script
	sessions sessions
	tasks    tasks
	stats    Stats
}

// New makes a service. Errors name the object and the field of the description, or the option. Close it in the end.
func New(config description.Config, options Options) (*Service, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	if options.Username == "" || options.Password == "" {
		return nil, errors.New("user name or password is empty: a service without credentials is open to everybody")
	}
	if options.Clock == nil {
		options.Clock = realClock{}
	}
	if config.Limits.RetryAfter <= 0 {
		config.Limits.RetryAfter = description.Duration(time.Second)
	}
	s := &Service{
		config: config, options: options, closing: make(chan struct{}), timers: map[*timer]bool{},
		script:   script{retryAfter: config.Limits.RetryAfter},
		sessions: sessions{options.Username, options.Password, options.Clock, map[string]*session{}},
		stats:    Stats{Requests: map[string]int{}},
	}
	s.shelf = newShelf(&s.config)
	s.tasks = tasks{
		config: &s.config, clock: options.Clock, after: s.after, shelf: s.shelf, script: &s.script, stats: &s.stats,
		running: map[*operation]bool{}, kept: map[string]*operation{},
	}
	if options.State != nil {
		if err := s.shelf.restore(*options.State); err != nil {
			return nil, err
		}
		s.tasks.last = options.State.Tasks
	}
	for i, f := range config.Faults {
		if err := s.script.add(f, s.shelf); err != nil {
			return nil, fmt.Errorf("faults[%d]: %w", i, err)
		}
	}
	for _, sight := range s.shelf.sightOfAll() {
		if len(sight.Devices) > 0 {
			s.shelf.sights = append(s.shelf.sights, sight)
		}
	}
	s.handler = s.routes()
	s.tell()
	return s, nil
}

// Close ends the service. Operations that are going on never happened, requests that wait get no answer. It returns
// when nothing of the service runs any more, apart from handlers of requests, which are the HTTP server's.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		for t := range s.timers {
			t.stop()
		}
		clear(s.timers)
	}
	s.mu.Unlock()
	s.callback.Wait()
}

// timer is one call of after.
type timer struct{ stop func() }

// after calls f with the lock held once d has passed, unless the service is closed by then. The caller holds the lock.
// With no time to pass it calls f at once.
func (s *Service) after(d description.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	t := &timer{}
	s.timers[t] = true
	t.stop = s.options.Clock.AfterFunc(time.Duration(d), func() {
		s.mu.Lock()
		if !s.timers[t] {
			s.mu.Unlock()
			return
		}
		delete(s.timers, t)
		s.callback.Add(1)
		defer s.callback.Done()
		f()
		s.changed()
		s.mu.Unlock()
		s.tell()
	})
}

// tell reports to the observer what hosts see now. The caller does not hold the lock.
func (s *Service) tell() {
	s.observing.Lock()
	defer s.observing.Unlock()
	for {
		s.mu.Lock()
		sights := s.shelf.sights
		s.shelf.sights = nil
		s.mu.Unlock()
		if len(sights) == 0 {
			return
		}
		for _, sight := range sights {
			if s.options.Observer != nil {
				s.options.Observer(sight)
			}
		}
	}
}

// Stats count what clients have asked for.
type Stats struct {
	// Requests by method and path pattern, as in "GET /redfish/v1/Systems/{system}", and all together.
	Requests map[string]int `json:"requests"`
	Total    int            `json:"total"`
	// Operations counts the attaches and detaches that were begun, the others those that were going on at once: in the
	// service and on one host.
	Operations    int `json:"operations"`
	MaxOperations int `json:"maxOperations"`
	MaxPerHost    int `json:"maxPerHost"`
	// Logins counts the sessions that were made.
	Logins int `json:"logins"`
}

// Stats returns the counts since the start or the last ResetStats.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Requests = map[string]int{}
	for k, n := range s.stats.Requests {
		stats.Requests[k] = n
	}
	return stats
}

// ResetStats starts to count again.
func (s *Service) ResetStats() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = Stats{Requests: map[string]int{}}
}
