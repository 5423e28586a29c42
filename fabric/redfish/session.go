// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stmcginnis/gofish"
)

const (
	minLoginPause = time.Second
	maxLoginPause = 5 * time.Minute
)

// session is who we are to the service. It logs in when it must, and pauses longer and longer after a refusal: services
// lock accounts out.
type session struct {
	config gofish.ClientConfig
	now    func() time.Time
	// turn is held (it has room for one) while somebody logs in. A mutex would keep a call beyond its deadline.
	turn chan struct{}

	mu      sync.Mutex
	client  *gofish.APIClient // nil: not logged in
	refused *statusError      // of the last login
	pause   time.Duration     // after it
	until   time.Time
}

func newSession(options Options, client *http.Client) *session {
	return &session{
		config: gofish.ClientConfig{
			Endpoint: options.Endpoint, Username: options.Username, Password: options.Password, BasicAuth: options.BasicAuth,
			HTTPClient: client, ReuseConnections: true, NoModifyTransport: true,
			MaxConcurrentRequests: int64(options.Requests),
		},
		now:  options.Now,
		turn: make(chan struct{}, 1),
	}
}

// current returns a client that is logged in, and logs in where there is none.
func (s *session) current(ctx context.Context) (*gofish.APIClient, error) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client != nil {
		return client, nil
	}
	return s.renew(ctx, nil)
}

// renew logs in, unless somebody else has done so since the client was found stale.
func (s *session) renew(ctx context.Context, stale *gofish.APIClient) (*gofish.APIClient, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, &transportError{op: "log in", err: overdue(ctx, ctx.Err())}
	}
	s.mu.Lock()
	client, refused, wait := s.client, s.refused, s.until.Sub(s.now())
	s.mu.Unlock()
	switch {
	case client != nil && client != stale:
		return client, nil
	case refused != nil && wait > 0:
		return nil, &statusError{op: "log in", status: http.StatusUnauthorized, retryAfter: wait, message: "paused after: " + refused.Error(),
			login: refused.login}
	}
	client, err := s.login(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.refused = client, nil
	if no := (*statusError)(nil); errors.As(err, &no) {
		s.rest(no)
	}
	return client, err
}

// rest notes a refusal. The caller holds the lock.
func (s *session) rest(no *statusError) {
	s.client, s.refused = nil, no
	s.pause = min(max(2*s.pause, minLoginPause), maxLoginPause)
	s.until = s.now().Add(max(s.pause, no.retryAfter))
}

// heard notes how the service has taken the password that a client sends with every request. A session that it does not
// take is another matter: then it is time to log in.
func (s *session) heard(client *gofish.APIClient, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no := (*statusError)(nil)
	switch refused := errors.As(err, &no) && no.status == http.StatusUnauthorized; {
	case s.client != client:
	case refused && s.config.BasicAuth:
		s.rest(no)
	case err == nil:
		s.pause = 0
	}
}

func (s *session) login(ctx context.Context) (*gofish.APIClient, error) {
	ctx, seen := witnessed(small(ctx))
	client, err := gofish.ConnectContext(ctx, s.config)
	if err != nil {
		err = s.hideIn(seen.failure(ctx, "log in", err))
		if lost := (*transportError)(nil); errors.As(err, &lost) {
			lost.sent = false // What the login is for was not.
		}
		return nil, err
	}
	if !s.stateful() {
		return client, nil
	}
	if made, err := client.GetSession(); err != nil || made.Token == "" {
		return nil, &statusError{op: "log in", status: http.StatusUnauthorized, message: "the service made a session without a token"}
	}
	return client, nil
}

// hidden is what stands in the place of a secret.
const hidden = "[hidden]"

// hide takes what we log in with out of the service's words: a service may say back what it was sent, and its words are
// logged, and written into objects.
func (s *session) hide(words string) string {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	return s.hideOf(client, words)
}

// hideOf is hide with the token of one client, which may be nil.
func (s *session) hideOf(client *gofish.APIClient, words string) string {
	if s.config.Password == "" {
		return words
	}
	basic := base64.StdEncoding.EncodeToString([]byte(s.config.Username + ":" + s.config.Password))
	secrets := []string{basic, s.config.Password}
	if client != nil {
		if made, err := client.GetSession(); err == nil {
			secrets = append(secrets, made.Token)
		}
	}
	for _, secret := range secrets {
		if secret != "" {
			words = strings.ReplaceAll(words, secret, hidden)
		}
	}
	return words
}

// hideIn is hide for the error of a request. What a service says is at most a line of it. The error is left as it is:
// requests that end because another has failed share its error.
func (s *session) hideIn(err error) error {
	if lost := (*transportError)(nil); errors.As(err, &lost) {
		return &transportError{op: s.hide(lost.op), sent: lost.sent, err: s.hideText(lost.err)}
	}
	if no := (*statusError)(nil); errors.As(err, &no) {
		told := *no
		told.op, told.message = s.hide(no.op), s.words(no.message)
		return &told
	}
	return s.hideText(err)
}

// hideText replaces an error whose text has a secret by one that has none.
func (s *session) hideText(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); s.hide(text) != text {
		return errors.New(s.hide(text))
	}
	return err
}

// words are the service's words without secrets, as at most a line of them.
func (s *session) words(all string) string {
	const most = 300
	all = strings.Join(strings.Fields(s.hide(all)), " ")
	if len(all) > most {
		all = all[:most] + "..."
	}
	return strings.ToValidUTF8(all, "")
}

// stateful tells whether the service keeps a session for us.
func (s *session) stateful() bool { return s.config.Username != "" && !s.config.BasicAuth }

// end logs out and closes the connections.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.client = nil
	s.mu.Unlock()
	defer s.config.HTTPClient.CloseIdleConnections()
	if client == nil || !s.stateful() {
		return nil
	}
	made, err := client.GetSession()
	if err == nil {
		err = client.WithContext(ctx).Service.DeleteSession(made.ID)
	}
	if err != nil {
		return fmt.Errorf("log out of %s: %s", s.config.Endpoint, s.words(s.hideOf(client, err.Error())))
	}
	return nil
}
