// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// watchGate holds the events of claims back.
type watchGate struct {
	mutex sync.Mutex
	open  chan struct{}
}

func newWatchGate() *watchGate {
	g := &watchGate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *watchGate) hold() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.open = make(chan struct{})
}

func (g *watchGate) release() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *watchGate) opened() <-chan struct{} {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.open
}

// reactTo puts the gate between the API server and those who watch its claims.
func (g *watchGate) reactTo(api *apiServer) clienttesting.WatchReactionFunc {
	return func(action clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if w, ok := action.(clienttesting.WatchActionImpl); ok {
			options = w.ListOptions
		}
		source, err := api.client.Tracker().Watch(claimResource, action.GetNamespace(), options)
		if err != nil {
			return true, nil, err
		}
		w := &gatedWatch{source: source, events: make(chan watch.Event), done: make(chan struct{})}
		go w.forward(g)
		return true, w, nil
	}
}

type gatedWatch struct {
	source watch.Interface
	events chan watch.Event
	once   sync.Once
	done   chan struct{}
}

func (w *gatedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *gatedWatch) Stop() {
	w.once.Do(func() { close(w.done) })
	w.source.Stop()
}

func (w *gatedWatch) forward(g *watchGate) {
	defer close(w.events)
	for event := range w.source.ResultChan() {
		select {
		case <-g.opened():
		case <-w.done:
			return
		}
		select {
		case w.events <- event:
		case <-w.done:
			return
		}
	}
}
