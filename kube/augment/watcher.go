// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files are read when nothing happened to them for the time of settle: most
// programs write a file in several steps. Who never stops writing is read at
// times nevertheless.
const (
	settle    = 50 * time.Millisecond
	maxSettle = 20 * settle
)

// watcher wakes when files of a directory may have changed, or the directory was
// made, removed or replaced by another.
type watcher struct {
	path     string
	ancestor string // the nearest that exists
	notify   *fsnotify.Watcher
	fault    func(error)
}

func newWatcher(path string, fault func(error)) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &watcher{path: path, notify: notify, fault: fault}, nil
}

func (w *watcher) close() error { return w.notify.Close() }

// arm watches what is at the path now, and the nearest directory above that
// exists, where the path changes its meaning. It tells whether there is something
// at the path. Read afterwards: what changes later wakes the watcher.
func (w *watcher) arm() (there bool, err error) {
	for {
		ancestor := nearest(w.path)
		if w.ancestor != "" {
			w.drop(w.ancestor)
		}
		w.ancestor = ancestor
		if err := w.notify.Add(ancestor); err != nil {
			if !exists(ancestor) {
				continue
			}
			return false, fmt.Errorf("watch %s: %w", ancestor, err)
		}
		there, err := w.armPath()
		if err != nil || nearest(w.path) == ancestor {
			return there, err
		}
	}
}

// armPath watches anew, since what is at the path may be another directory than
// the one watched so far.
func (w *watcher) armPath() (there bool, err error) {
	w.drop(w.path)
	err = w.notify.Add(w.path)
	if err != nil && !exists(w.path) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	return true, nil
}

// drop ends a watch. That it has ended by itself, with what it was for, is the
// usual case; a watch that stays behind only wakes too often.
func (w *watcher) drop(path string) { _ = w.notify.Remove(path) }

// nearest is the nearest directory above a path that exists.
func nearest(path string) string {
	for path = filepath.Dir(path); path != filepath.Dir(path) && !exists(path); {
		path = filepath.Dir(path)
	}
	return path
}

// wait returns when something changed and has settled. The error is the context's,
// or that the watch has ended.
func (w *watcher) wait(ctx context.Context) error {
	if err := w.next(ctx, nil); err != nil {
		return err
	}
	for deadline := time.Now().Add(maxSettle); time.Now().Before(deadline); {
		quiet := time.NewTimer(settle)
		err := w.next(ctx, quiet.C)
		quiet.Stop()
		if errors.Is(err, errQuiet) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

var (
	errQuiet = errors.New("nothing changed")
	errEnded = errors.New("the watch has ended")
)

// next returns at the next change that concerns the directory.
func (w *watcher) next(ctx context.Context, quiet <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-quiet:
			return errQuiet
		case event, ok := <-w.notify.Events:
			if !ok {
				return errEnded
			}
			if w.concerns(event.Name) {
				return nil
			}
		case err, ok := <-w.notify.Errors:
			if !ok {
				return errEnded
			}
			// Changes were lost: read. That the kernel's queue overflows does no harm
			// beyond that.
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.fault(fmt.Errorf("watch %s: %w", w.path, err))
			}
			return nil
		}
	}
}

// concerns tells whether a path is in the directory, or is the directory or one
// above it.
func (w *watcher) concerns(path string) bool {
	return filepath.Dir(path) == w.path || path == w.path || strings.HasPrefix(w.path, strings.TrimSuffix(path, "/")+"/")
}
