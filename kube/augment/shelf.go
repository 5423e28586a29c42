// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"kerf.dev/kerf/augment"
)

// BrokenFile says that a file cannot be used, and what is used instead.
type BrokenFile struct {
	// Path is that of the file.
	Path string
	// Kept says that the last good version of the file stays in force. Otherwise
	// there was none, and the file is ignored.
	Kept bool
	// Err is what is wrong: a list of [augment.Error] for a file that was read.
	Err error
}

func (b *BrokenFile) Error() string {
	if b.Kept {
		return fmt.Sprintf("file %s is broken, its last good version stays in force: %v", b.Path, b.Err)
	}
	return fmt.Sprintf("file %s is broken and ignored: %v", b.Path, b.Err)
}

func (b *BrokenFile) Unwrap() error { return b.Err }

// shelf is the files of a directory, each in its last good version.
type shelf struct {
	path string
	good map[string]*augment.File
}

// read brings the shelf up to date. Files that cannot be used are named in broken;
// an error is that of the directory and leaves the shelf as it is.
func (s *shelf) read() (broken []*BrokenFile, err error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	good := map[string]*augment.File{}
	for _, entry := range entries {
		name := entry.Name()
		if !augment.IsFileName(name) {
			continue
		}
		file, err := parse(s.path, name)
		if errors.Is(err, os.ErrNotExist) && !isLink(entry) {
			continue // deleted since the directory was listed
		}
		if err != nil {
			last := s.good[name]
			broken = append(broken, &BrokenFile{Path: filepath.Join(s.path, name), Kept: last != nil, Err: err})
			file = last
		}
		if file != nil {
			good[name] = file
		}
	}
	s.good = good
	return broken, nil
}

func (s *shelf) rules() augment.Rules {
	var files []*augment.File
	for _, f := range s.good {
		files = append(files, f)
	}
	return augment.NewRules(files...)
}

func isLink(entry os.DirEntry) bool { return entry.Type()&os.ModeSymlink != 0 }

func parse(directory, name string) (*augment.File, error) {
	data, err := readRegular(filepath.Join(directory, name))
	if err != nil {
		return nil, err
	}
	return augment.Parse(name, data)
}

// readRegular does not open what would block or never end, and reads no more than
// Parse needs to refuse the size.
func readRegular(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file: rename it, or put a file in its place")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, augment.MaxFileSize+1))
}
