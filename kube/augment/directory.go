// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"kerf.dev/kerf/augment"
)

// Options are those of a Directory.
type Options struct {
	// Driver is the name of the driver whose rules count as changed.
	Driver string
	// WaitForDirectory has Open wait until the directory exists. Otherwise it is an
	// error that it does not.
	WaitForDirectory bool
	// Changed is called after a change of the rules about the driver, from one
	// goroutine, with the rules in force. It is not called for what Load returned.
	// It may be nil. It must not call Close.
	Changed func(augment.Rules)
	// Report is told what is wrong and does not keep the others from working, such
	// as a [BrokenFile]. It is called by one goroutine at a time and must not call
	// methods of the Directory or Publisher. It is required.
	Report func(error)
}

// Directory is a directory of files, kept up to date.
type Directory struct {
	options Options
	stop    context.CancelFunc
	stopped chan struct{}

	mu       sync.Mutex
	shelf    shelf
	rules    augment.Rules
	reported map[string]string // path -> last report about it
	heard    func()            // called after the directory was read again, may be nil
}

// Open reads a directory and watches it until the context ends or Close is called.
// It returns after the directory was read.
func Open(ctx context.Context, path string, options Options) (*Directory, error) {
	if err := options.check(path); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("augmentation directory %s: %w", path, err)
	}
	d := &Directory{
		options: options, stopped: make(chan struct{}),
		shelf: shelf{path: path}, reported: map[string]string{},
	}
	w, err := newWatcher(path, d.fault)
	if err != nil {
		return nil, fmt.Errorf("augmentation directory %s: %w", path, err)
	}
	if err := d.start(ctx, w); err != nil {
		return nil, fmt.Errorf("augmentation directory %s: %w", path, errors.Join(err, w.close()))
	}
	ctx, d.stop = context.WithCancel(ctx)
	go d.run(ctx, w)
	return d, nil
}

func (o Options) check(path string) error {
	switch {
	case path == "":
		return errors.New("the augmentation directory has no path: give one")
	case o.Driver == "":
		return errors.New("options: driver is empty: give the name of the driver")
	case o.Report == nil:
		return errors.New("options: report is nil: give a function that logs the error")
	}
	return nil
}

// start arms the watch and reads the directory for the first time, in that order:
// no change is missed in between.
func (d *Directory) start(ctx context.Context, w *watcher) error {
	there, err := w.arm()
	for ; err == nil && !there && d.options.WaitForDirectory; there, err = w.arm() {
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("does not exist: %w", err)
		}
	}
	if err != nil {
		return err
	}
	if !there {
		return errors.New("does not exist: create it, or set WaitForDirectory")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.read()
}

// whenRead has a function be called each time that the directory was read because
// something happened there. It must not block.
func (d *Directory) whenRead(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = f
}

// Rules are the rules in force, as read last.
func (d *Directory) Rules() augment.Rules {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rules
}

// Load reads the directory now and returns the rules in force.
func (d *Directory) Load() augment.Rules {
	_, rules := d.load()
	return rules
}

// load also returns the rules that were in force before.
func (d *Directory) load() (before, rules augment.Rules) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before = d.rules
	if err := d.read(); err != nil {
		d.report(d.shelf.path, fmt.Errorf("augmentation directory %s: cannot be read, what was read last stays in force: %w", d.shelf.path, err))
	}
	return before, d.rules
}

// read must be called with the lock held.
func (d *Directory) read() error {
	broken, err := d.shelf.read()
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err // callers name the directory
	} else if err != nil {
		return err
	}
	d.rules = d.shelf.rules()
	last := d.reported
	d.reported = map[string]string{}
	for _, b := range broken {
		d.reported[b.Path] = last[b.Path]
		d.report(b.Path, b)
	}
	return nil
}

// report says what is wrong with a path unless that was said already. It must be
// called with the lock held.
func (d *Directory) report(path string, err error) {
	if d.reported[path] != err.Error() {
		d.reported[path] = err.Error()
		d.options.Report(err)
	}
}

// Close ends the watch and waits for its end. What was read last stays readable.
func (d *Directory) Close() {
	d.stop()
	<-d.stopped
}

// run follows the directory. The watch is armed before each read, since the
// directory may be another one by now.
func (d *Directory) run(ctx context.Context, w *watcher) {
	defer close(d.stopped)
	for w.wait(ctx) == nil {
		if _, err := w.arm(); err != nil {
			d.fault(fmt.Errorf("augmentation directory %s: %w", d.shelf.path, err))
		}
		before, rules := d.load()
		d.mu.Lock()
		read := d.heard
		d.mu.Unlock()
		if read != nil {
			read()
		}
		if d.options.Changed != nil && !rules.Equal(before, d.options.Driver) {
			d.options.Changed(rules)
		}
	}
	if err := w.close(); err != nil {
		d.fault(fmt.Errorf("augmentation directory %s: %w", d.shelf.path, err))
	}
}

// fault passes on what is not repeated by itself.
func (d *Directory) fault(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.options.Report(err)
}

// exists tells whether there is something at a path that can be a directory.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
