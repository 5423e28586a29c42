// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package background

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Chores are what has to be done at the API server before a pod can be scheduled:
// allocations to give up, special claims to remove. The scheduling of all pods would
// wait for the answers, so it is done beside that. While a claim is in them no attempt
// uses it; pods that came for it come back when it is done. Success is a change of the
// claim, which brings back the others.
type Chores struct {
	logger    klog.Logger
	worker    *Worker[types.UID]
	activator fwk.PodActivator

	mutex sync.Mutex
	// by what is remembered about a claim is filed under, see podclaim.Claim.Key.
	by map[types.UID]*chore
}

type chore struct {
	// do is repeated until it returns nil: it is done, or there is nothing to do.
	do func(ctx context.Context) error
	// waiting are the pods that came meanwhile, by namespace/name.
	waiting map[string]*v1.Pod
}

const (
	// MaxChores bounds what is remembered. A pod for which there is no place comes
	// back after a backoff.
	MaxChores = 1000
	// choreWorkers is how many answers are waited for at once.
	choreWorkers = 8
	// choreTimeout ends an attempt: a request without an answer keeps a worker.
	choreTimeout = 30 * time.Second
)

// ErrManyChores says that no more can be remembered. It is over when some of it is done.
var ErrManyChores = fmt.Errorf("%d claims are being given up already, and the API server does not answer fast enough", MaxChores)

// NewChores starts the workers, which Close ends. The activator brings pods back.
func NewChores(logger klog.Logger, activator fwk.PodActivator) *Chores {
	c := &Chores{logger: logger, activator: activator, by: map[types.UID]*chore{}}
	c.worker = StartWorker(choreWorkers, c.run, func(claim types.UID, err error) {
		logger.Error(err, "cannot give up a claim that keeps a pod from being scheduled, trying again", "claim", claim)
	})
	// Only who schedules has any.
	c.worker.Activate()
	return c
}

// Close waits until the goroutines have ended.
func (c *Chores) Close() { c.worker.Close() }

// Begin has something done about a claim. It is an error if too much is to be done.
func (c *Chores) Begin(claim types.UID, do func(ctx context.Context) error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.by[claim] != nil {
		return nil // what was seen before it was begun says no more than it knows
	}
	if len(c.by) >= MaxChores {
		return ErrManyChores
	}
	c.by[claim] = &chore{do: do, waiting: map[string]*v1.Pod{}}
	c.worker.Add(claim)
	return nil
}

// Idle reports whether there is nothing to do.
func (c *Chores) Idle() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.by) == 0
}

// Keep reports whether something is being done about a claim. Then the pod comes back
// when that has ended.
func (c *Chores) Keep(claim types.UID, pod *v1.Pod) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found := c.by[claim]
	if found == nil {
		return false
	}
	found.waiting[pod.Namespace+"/"+pod.Name] = pod
	return true
}

func (c *Chores) run(ctx context.Context, claim types.UID) error {
	c.mutex.Lock()
	found := c.by[claim]
	c.mutex.Unlock()
	if found == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, c.logger), choreTimeout)
	defer cancel()
	if err := found.do(ctx); err != nil {
		return err
	}
	c.mutex.Lock()
	delete(c.by, claim)
	waiting := maps.Clone(found.waiting)
	c.mutex.Unlock()
	if len(waiting) > 0 {
		c.activator.Activate(c.logger, waiting)
	}
	return nil
}
