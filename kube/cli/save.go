// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kerf.dev/kerf/dump"
)

// save writes a dump to a file. Names of pods and claims are not for everybody on
// the machine.
func save(d *dump.Dump, file string) error {
	text, err := d.Marshal()
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("encode the dump: %w", err)}
	}
	if err := replace(file, text, 0o600); err != nil {
		return &exitError{exitFailed, fmt.Errorf("write the dump: %w", err)}
	}
	return nil
}

// replace writes a file so that there is always all of the old content or all of
// the new one. What is there and no regular file, such as a pipe, is written to.
// The mode is that of a new file; an old one keeps its own.
func replace(file string, content []byte, mode os.FileMode) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return os.WriteFile(file, content, mode)
	default:
		mode = info.Mode().Perm()
		// Replace what a link points to, not the link.
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return err
		}
	}
	next, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}
