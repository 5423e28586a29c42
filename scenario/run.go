// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Report is how a story went.
type Report struct {
	// Failures name file, line and verb. Expectations that are not met do not
	// end the story, everything else does.
	Failures []error
	// Differences are outputs that are not as expected, which Text mends.
	Differences []error
	// Text is the story with the output of its verbs as it was.
	Text []byte
}

// Err is everything that went wrong.
func (r Report) Err() error {
	return errors.Join(errors.Join(r.Failures...), errors.Join(r.Differences...))
}

// TellableOn reports whether the story makes sense on the backend.
func (s *Story) TellableOn(backend string) bool { return s.Only == "" || s.Only == backend }

// Run tells the story on a backend, which must be empty at the beginning.
func (s *Story) Run(b Backend) Report {
	t := &telling{story: s, backend: b, own: map[string]bool{}}
	seen := make([][]string, len(s.steps))
	var report Report
	brokenOff := false
	for i, st := range s.steps {
		seen[i] = st.want
		if st.on != "" && st.on != b.Name() {
			continue
		}
		t.at = st
		output, err := t.step(st)
		if err != nil {
			report.Failures = append(report.Failures, s.failure(st, err))
			var unmet *unmetError
			if brokenOff = !errors.As(err, &unmet); brokenOff {
				break
			}
			continue
		}
		if !st.verb.prints {
			continue
		}
		seen[i] = output
		if !slices.Equal(output, st.want) {
			report.Differences = append(report.Differences, s.failure(st, unexpectedOutput(st.want, output)))
		}
	}
	if !brokenOff {
		report.Failures = append(report.Failures, t.openHolds()...)
	}
	report.Text = s.withOutput(seen)
	return report
}

func (s *Story) failure(st step, err error) error {
	return fmt.Errorf("%s:%d: %s: %w", s.Name, st.number, st.verb.name, err)
}

func unexpectedOutput(want, got []string) error {
	return fmt.Errorf("output differs (-update accepts it)\nwant:\n%s\ngot:\n%s", quoteOutput(want), quoteOutput(got))
}

func quoteOutput(lines []string) string {
	var quoted []string
	for _, l := range lines {
		quoted = append(quoted, strings.TrimRight("| "+l, " "))
	}
	return strings.Join(quoted, "\n")
}

// withOutput writes the story anew, with the given output after each step.
func (s *Story) withOutput(output [][]string) []byte {
	var script []string
	next := 0
	for i, st := range s.steps {
		script = append(script, s.script[next:st.from]...)
		if len(output[i]) > 0 {
			script = append(script, strings.Split(quoteOutput(output[i]), "\n")...)
		}
		next = max(st.from, st.to)
		if len(st.want) == 0 {
			next = st.from
		}
	}
	script = append(script, s.script[next:]...)
	return txtar.Format(&txtar.Archive{
		Comment: []byte(strings.Join(script, "\n") + "\n"),
		Files:   slices.Clone(s.files),
	})
}

// telling is one run of a story.
type telling struct {
	story   *Story
	backend Backend
	// own are the pods that have a claim of their own, with their name.
	own map[string]bool
	// changes are the objects that the verb wants applied so far.
	changes []Object
	// at is the verb that is told.
	at step
	// armed are all holds so far.
	armed []armedHold
	// awaiting says that the verb waits for an expectation.
	awaiting bool
}

// unmetError is an expectation that was not met.
type unmetError struct{ text string }

func (e *unmetError) Error() string { return e.text }

func unmet(format string, args ...any) error {
	return &unmetError{fmt.Sprintf(format, args...)}
}

// step runs a verb, once for every turn of its loop, and returns its output.
func (t *telling) step(st step) ([]string, error) {
	words, loops, err := cutLoop(st.words)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	for _, values := range loops {
		head, err := bind(line{number: st.number, words: words}, values, true)
		if err != nil {
			return nil, err
		}
		body, err := unroll(st.body, values)
		if err != nil {
			return nil, err
		}
		text, err := st.verb.do(t, call{usage: st.verb.usage, words: head.words, body: body})
		if err != nil {
			return nil, err
		}
		output.WriteString(text)
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	if output.Len() == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(output.String(), "\n"), "\n"), nil
}

// flush applies the changes of a verb, all turns of its loop at once.
func (t *telling) flush() error {
	changes := t.changes
	t.changes = nil
	if len(changes) == 0 {
		return nil
	}
	return t.backend.Apply(changes...)
}

// state waits until nothing moves and returns what there is.
func (t *telling) state() (*State, error) {
	if err := t.backend.Settle(); err != nil {
		return nil, fmt.Errorf("%s does not settle: %w", t.backend.Name(), err)
	}
	return t.backend.State()
}
