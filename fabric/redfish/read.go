// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/stmcginnis/gofish/schemas"
	"golang.org/x/sync/errgroup"
)

// odata is what all resources have.
type odata struct {
	ID   string `json:"@odata.id"`
	ETag string `json:"@odata.etag"`
}

// cache has the resources that were read one by one, to ask only whether they changed.
type cache struct {
	mu    sync.Mutex
	known map[string]known
	// asked has what was asked for since the last sweep.
	asked map[string]bool
}

type known struct {
	etag string
	body []byte
}

func newCache() cache { return cache{known: map[string]known{}, asked: map[string]bool{}} }

func (c *cache) get(path string) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[path] = true
	k, ok := c.known[path]
	return k, ok
}

func (c *cache) put(path string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.etag == "" {
		delete(c.known, path)
		return
	}
	c.known[path] = k
}

// sweep forgets what was not asked for since the last one.
func (c *cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path := range c.known {
		if !c.asked[path] {
			delete(c.known, path)
		}
	}
	clear(c.asked)
}

// read reads a resource as it is now.
func (m *Manager) read(ctx context.Context, path string, into any) (etag string, err error) {
	got, err := m.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return "", err
	}
	return decode(path, got, into)
}

func decode(path string, got *answer, into any) (etag string, err error) {
	var about odata
	if err := json.Unmarshal(got.body, &about); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if tag := got.header.Get("ETag"); tag != "" {
		// Some servers mark that they have compressed the answer, and do not know the mark when it comes back.
		if plain, marked := strings.CutSuffix(tag, `-gzip"`); marked {
			tag = plain + `"`
		}
		return tag, nil
	}
	return about.ETag, nil
}

// current returns a resource as it is now, from memory if the service says that it has not changed.
func (m *Manager) current(ctx context.Context, path string) ([]byte, error) {
	var header map[string]string
	kept, ok := m.cache.get(path)
	if ok {
		header = map[string]string{"If-None-Match": kept.etag}
	}
	got, err := m.request(ctx, http.MethodGet, path, nil, header)
	if errors.Is(err, errNotModified) {
		return kept.body, nil
	}
	if err != nil {
		return nil, err
	}
	var about odata
	etag, err := decode(path, got, &about)
	if err != nil {
		return nil, err
	}
	m.cache.put(path, known{etag: etag, body: got.body})
	return got.body, nil
}

// members reads all members of a collection, whole: with $expand where the service has it, else one by one. Levels is
// how deep to expand.
func (m *Manager) members(ctx context.Context, path string, levels int) ([]json.RawMessage, error) {
	query := ""
	if l := m.known(); l != nil {
		query = l.expand(levels)
	}
	listed, err := m.pages(ctx, path, query)
	if no := (*statusError)(nil); query != "" && errors.As(err, &no) && cannotExpand(no.status) {
		m.known().neverExpand()
		listed, err = m.pages(ctx, path, "")
	}
	if err != nil {
		return nil, err
	}
	whole := make([]json.RawMessage, len(listed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.options.Requests)
	for i, member := range listed {
		if !isLink(member) {
			whole[i] = member
			continue
		}
		group.Go(func() error {
			body, err := m.linked(ctx, member)
			whole[i] = body
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return present(whole), nil
}

// cannotExpand tells whether a service that says it can expand has said that it cannot.
func cannotExpand(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusNotImplemented
}

// pages reads the members of a collection as they are listed, page after page.
func (m *Manager) pages(ctx context.Context, path, query string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	seen, pages := map[string]bool{}, map[string]bool{}
	for next := path + query; next != ""; {
		if pages[next] {
			return nil, fmt.Errorf("%s: page %s follows itself", path, next)
		}
		pages[next] = true
		var page struct {
			Members []json.RawMessage
			Next    string `json:"Members@odata.nextLink"`
		}
		if _, err := m.read(ctx, next, &page); err != nil {
			return nil, err
		}
		for _, member := range page.Members {
			var about odata
			if err := json.Unmarshal(member, &about); err != nil || about.ID == "" {
				return nil, fmt.Errorf("%s: a member has no @odata.id", path)
			}
			// A member that moves between pages while they are read is seen twice.
			if !seen[about.ID] {
				seen[about.ID] = true
				all = append(all, member)
			}
		}
		next = page.Next
	}
	return all, nil
}

// isLink tells whether a resource is only the link to it.
func isLink(raw json.RawMessage) bool {
	var properties map[string]json.RawMessage
	if json.Unmarshal(raw, &properties) != nil {
		return false
	}
	_, has := properties["@odata.id"]
	return has && len(properties) == 1
}

// linked reads what a link is to. It is nil where there is nothing any more.
func (m *Manager) linked(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var about schemas.Link
	if err := json.Unmarshal(raw, &about); err != nil {
		return nil, err
	}
	body, err := m.current(ctx, about.String())
	if isGone(err) {
		return nil, nil
	}
	return body, err
}

// isGone tells that there is nothing at a path.
func isGone(err error) bool {
	no := (*statusError)(nil)
	return errors.As(err, &no) && (no.status == http.StatusNotFound || no.status == http.StatusGone)
}

func present(all []json.RawMessage) []json.RawMessage {
	var there []json.RawMessage
	for _, raw := range all {
		if raw != nil {
			there = append(there, raw)
		}
	}
	return there
}
