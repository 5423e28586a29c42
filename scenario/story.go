// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Story is a parsed scenario: a script and the files it uses.
type Story struct {
	// Name is the name of the file.
	Name string
	// Only is the one backend that the story makes sense on, empty for all,
	// and Because the reason.
	Only, Because string

	script []string // the lines before the first file
	steps  []step
	files  []txtar.File
}

// step is one verb of the script with all that belongs to it.
type step struct {
	line
	// on is the one backend that runs the step, empty for all.
	on   string
	verb *verb
	body []line
	// want is the expected output. It stands in the lines from..to-1 of the
	// script, counted from 0; from is where it belongs if there is none.
	want     []string
	from, to int
}

// Parse reads a story. The error names file, line and verb.
func Parse(name string, text []byte) (*Story, error) {
	archive := txtar.Parse(text)
	s := &Story{Name: name, files: archive.Files}
	s.script = strings.Split(strings.TrimSuffix(string(archive.Comment), "\n"), "\n")
	if err := s.checkHeader(); err != nil {
		return nil, err
	}
	for i, text := range s.script {
		if err := s.addLine(i, text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	if err := s.checkBackends(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkHeader demands that a story says where it comes from.
func (s *Story) checkHeader() error {
	for _, text := range s.script {
		if !strings.HasPrefix(text, "#") {
			break
		}
		if strings.HasPrefix(text, "# Source: ") {
			return nil
		}
	}
	return fmt.Errorf("%s:1: the story must begin with a comment that says what it shows and has a line \"# Source: ...\"", s.Name)
}

// addLine adds line i of the script: a verb, or more of the last one.
func (s *Story) addLine(i int, text string) error {
	if text == "|" || strings.HasPrefix(text, "| ") {
		return s.addOutput(i, text)
	}
	words, err := splitWords(text)
	if err != nil || len(words) == 0 {
		return err
	}
	l := line{number: i + 1, words: words, indent: len(text) - len(strings.TrimLeft(text, " \t"))}
	if l.indent == 0 {
		return s.addStep(l)
	}
	if len(s.steps) == 0 {
		return fmt.Errorf("indented line without a verb before it")
	}
	last := &s.steps[len(s.steps)-1]
	if !last.verb.body {
		return fmt.Errorf("%s: takes no indented lines", last.verb.name)
	}
	last.body = append(last.body, l)
	last.from, last.to = i+1, i+1
	return nil
}

func (s *Story) addOutput(i int, text string) error {
	if len(s.steps) == 0 {
		return fmt.Errorf("expected output without a verb before it")
	}
	last := &s.steps[len(s.steps)-1]
	if !last.verb.prints {
		return fmt.Errorf("%s: prints nothing that could be expected", last.verb.name)
	}
	if len(last.want) > 0 && last.to != i {
		return fmt.Errorf("%s: expected output must be in one piece", last.verb.name)
	}
	if len(last.want) == 0 {
		last.from = i
	}
	last.want, last.to = append(last.want, strings.TrimPrefix(text[1:], " ")), i+1
	return nil
}

func (s *Story) addStep(l line) error {
	st := step{line: l, from: l.number, to: l.number}
	if w := l.words[0].text; strings.HasPrefix(w, "[") {
		st.on = strings.Trim(w, "[]")
		st.words = l.words[1:]
		if !slices.Contains(backends, st.on) || len(st.words) == 0 {
			return fmt.Errorf("%s: want [core] or [sandbox], then a verb", w)
		}
	}
	name := st.words[0].text
	if name == "only" {
		return s.addOnly(st)
	}
	st.verb = verbNamed(name)
	if st.verb == nil {
		return fmt.Errorf("%s: no such verb; there are: %s", name, strings.Join(verbNames(), " "))
	}
	st.words = st.words[1:]
	s.steps = append(s.steps, st)
	return nil
}

// backends are the names that [NAME] and "only NAME" may use.
var backends = []string{"core", "sandbox"}

// addOnly reads "only BACKEND because REASON".
func (s *Story) addOnly(st step) error {
	w := st.words
	if len(s.steps) > 0 || s.Only != "" || len(w) < 4 || !w[2].is("because") || !slices.Contains(backends, w[1].text) {
		return fmt.Errorf("only: must be the first verb: only core|sandbox because REASON")
	}
	s.Only = w[1].text
	var reason []string
	for _, r := range w[3:] {
		reason = append(reason, r.text)
	}
	s.Because = strings.Join(reason, " ")
	return nil
}

// checkBackends refuses verbs on a backend that does not have them.
func (s *Story) checkBackends() error {
	for _, st := range s.steps {
		on := st.on
		if on == "" {
			on = s.Only
		}
		if demands := st.demands(); demands != "" && demands != on {
			return fmt.Errorf("%s:%d: %s: works on %s alone; write [%s] before it or begin the story with: only %s because REASON",
				s.Name, st.number, st.verb.name, demands, demands, demands)
		}
	}
	return nil
}

// demands returns the one backend that has what the step asks for.
func (st *step) demands() string {
	for _, e := range expectations() {
		if st.verb.name == "expect" && len(st.words) > 0 && st.words[0].is(e.noun) {
			return e.on
		}
	}
	return st.verb.on
}

// file returns a file of the story's archive.
func (s *Story) file(name string) ([]byte, error) {
	var names []string
	for _, f := range s.files {
		if f.Name == name {
			return f.Data, nil
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("no file %s in the story; there are: %s", name, strings.Join(names, " "))
}

// Title is the first line of the header.
func (s *Story) Title() string {
	return strings.TrimSpace(strings.TrimLeft(s.script[0], "# "))
}
