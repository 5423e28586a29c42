// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import "sync"

// inbox keeps what a loop is to hear, in order. It takes any number, so that who
// watches never waits for the loop.
type inbox struct {
	mu   sync.Mutex
	news []func()
	// ready has a value when there is news.
	ready chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) put(news func()) {
	i.mu.Lock()
	i.news = append(i.news, news)
	i.mu.Unlock()
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (i *inbox) take() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	news := i.news
	i.news = nil
	return news
}
