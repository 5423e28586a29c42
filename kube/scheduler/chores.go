// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// chores are what has to be done at the API server before a pod can be scheduled:
// allocations to give up, special claims to remove. The scheduling of all pods would
// wait for the answers, so it is done beside that. While a claim is in them no attempt
// uses it; pods that came for it come back when it is done. Success is a change of the
// claim, which brings back the others.
type chores struct {
	logger    klog.Logger
	worker    *worker[types.UID]
	activator fwk.PodActivator

	mutex sync.Mutex
	// by what is remembered about a claim is filed under, see podClaim.key.
	by map[types.UID]*chore
}

type chore struct {
	// do is repeated until it returns nil: it is done, or there is nothing to do.
	do func(ctx context.Context) error
	// waiting are the pods that came meanwhile, by namespace/name.
	waiting map[string]*v1.Pod
}

const (
	// maxChores bounds what is remembered. A pod for which there is no place comes
	// back after a backoff.
	maxChores = 1000
	// choreWorkers is how many answers are waited for at once.
	choreWorkers = 8
	// choreTimeout ends an attempt: a request without an answer keeps a worker.
	choreTimeout = 30 * time.Second
)

var errManyChores = fmt.Errorf("%d claims are being given up already, and the API server does not answer fast enough", maxChores)

func newChores(logger klog.Logger, activator fwk.PodActivator) *chores {
	c := &chores{logger: logger, activator: activator, by: map[types.UID]*chore{}}
	c.worker = startWorker(choreWorkers, c.run, func(claim types.UID, err error) {
		logger.Error(err, "cannot give up a claim that keeps a pod from being scheduled, trying again", "claim", claim)
	})
	// Only who schedules has any.
	c.worker.activate()
	return c
}

// Close waits until the goroutines have ended.
func (c *chores) Close() { c.worker.Close() }

// begin has something done about a claim. It is an error if too much is to be done.
func (c *chores) begin(claim types.UID, do func(ctx context.Context) error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.by[claim] != nil {
		return nil // what was seen before it was begun says no more than it knows
	}
	if len(c.by) >= maxChores {
		return errManyChores
	}
	c.by[claim] = &chore{do: do, waiting: map[string]*v1.Pod{}}
	c.worker.add(claim)
	return nil
}

// idle reports whether there is nothing to do.
func (c *chores) idle() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.by) == 0
}

// keep reports whether something is being done about a claim. Then the pod comes back
// when that has ended.
func (c *chores) keep(claim types.UID, pod *v1.Pod) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found := c.by[claim]
	if found == nil {
		return false
	}
	found.waiting[pod.Namespace+"/"+pod.Name] = pod
	return true
}

func (c *chores) run(ctx context.Context, claim types.UID) error {
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

// awaitChores refuses a pod with a claim about which something is being done.
func (pl *Plugin) awaitChores(logger klog.Logger, pod *v1.Pod, claims []*podClaim) *fwk.Status {
	for _, pc := range claims {
		if pl.chores.keep(pc.key(), pod) {
			return hopeless(logger, fmt.Sprintf("resource claim %s is in the process of being deallocated", nameOf(pc.claim)))
		}
	}
	if name, unsettled := pl.ledger.specials.isUnsettled(pod.UID); unsettled {
		if err := pl.specialClaims.beginRemoval(pod, []string{name}); err != nil {
			return failed(logger, err)
		}
	}
	if pl.chores.keep(placeholderUID(pod.UID), pod) {
		return hopeless(logger, "a claim that was made for extended resources of the pod is in the process of being removed")
	}
	return nil
}

// beginRemoval has special claims of a pod removed.
func (s *specialClaims) beginRemoval(pod *v1.Pod, names []string) error {
	return s.chores.begin(placeholderUID(pod.UID), func(ctx context.Context) error {
		for _, name := range names {
			switch err := s.removeStray(ctx, pod, name); {
			case errors.Is(err, errBound):
				return nil // nobody schedules the pod any more
			case err != nil:
				return err
			}
			if err := s.specials.setRemoved(pod, name); err != nil {
				return err
			}
		}
		return nil
	})
}
