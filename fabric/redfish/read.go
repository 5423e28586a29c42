// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	kept  int // bytes of bodies
	// asked has what was asked for since the inventory began.
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
	c.forget(path)
	if size := len(path) + len(k.body); k.etag != "" && c.kept+size <= maxCall {
		c.known[path] = k
		c.kept += size
	}
}

// forget takes a resource out. The caller holds the lock.
func (c *cache) forget(path string) {
	if k, ok := c.known[path]; ok {
		c.kept -= len(path) + len(k.body)
		delete(c.known, path)
	}
}

// begin notes that an inventory begins.
func (c *cache) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.asked)
}

// sweep forgets what was not asked for since the inventory began.
func (c *cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path := range c.known {
		if !c.asked[path] {
			c.forget(path)
		}
	}
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
	if err := json.Unmarshal(got.body, into); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return etagOf(path, got)
}

// etagOf is the ETag of what was read, empty where the service has none.
func etagOf(path string, got *answer) (string, error) {
	var about odata
	if err := json.Unmarshal(got.body, &about); err != nil {
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
	etag, err := etagOf(path, got)
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
	if query != "" && cannotExpand(err) {
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
	// What is gone by now is none of them.
	return slices.DeleteFunc(whole, func(raw json.RawMessage) bool { return raw == nil }), nil
}

// cannotExpand tells whether a service that says it can expand has said that it cannot, or answers more than is read of
// one answer.
func cannotExpand(err error) bool {
	if no := (*statusError)(nil); errors.As(err, &no) {
		return no.status == http.StatusBadRequest || no.status == http.StatusNotFound || no.status == http.StatusNotImplemented
	}
	return errors.Is(err, errAnswer)
}

// pages reads the members of a collection as they are listed, page after page.
func (m *Manager) pages(ctx context.Context, path, query string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	seen, pages := map[string]bool{}, map[string]bool{}
	for next := path + query; next != ""; {
		if pages[next] {
			return nil, fmt.Errorf("%s: page %s follows itself", path, next)
		}
		if len(pages) == maxPages {
			return nil, fmt.Errorf("%s: %w", path, limit("a collection has more than %d pages", maxPages))
		}
		pages[next] = true
		var page struct {
			Members list[json.RawMessage]
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
			if len(all) == maxMembers {
				return nil, fmt.Errorf("%s: %w", path, limit("a collection has more than %d members", maxMembers))
			}
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
	decoder := json.NewDecoder(bytes.NewReader(raw))
	var only json.RawMessage
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	if name, err := decoder.Token(); err != nil || name != "@odata.id" {
		return false
	}
	return decoder.Decode(&only) == nil && !decoder.More()
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
