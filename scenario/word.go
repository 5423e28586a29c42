// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// word is one word of a line. Quoted words are never taken for keywords.
type word struct {
	text   string
	quoted bool
}

// is reports whether the word is the given keyword.
func (w word) is(keyword string) bool { return !w.quoted && w.text == keyword }

// line is a line of a story, or of a verb's body, in words.
type line struct {
	number int // in the story's file, from 1
	indent int // columns before the first word
	words  []word
}

// splitWords splits a line at white space. Single quotes keep white space
// together, two of them in a row within quotes stand for one, and # at the start
// of a word begins a comment.
func splitWords(text string) ([]word, error) {
	var words []word
	for rest := strings.TrimLeft(text, " \t"); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, " \t") {
		w, n, err := firstWord(rest)
		if err != nil {
			return nil, err
		}
		words = append(words, w)
		rest = rest[n:]
	}
	return words, nil
}

// firstWord returns the word that text begins with and the bytes it takes.
func firstWord(text string) (word, int, error) {
	var w word
	var b strings.Builder
	inside := false
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\'' && inside && i+1 < len(text) && text[i+1] == '\'':
			b.WriteByte(c)
			i++
		case c == '\'':
			inside, w.quoted = !inside, true
		case !inside && (c == ' ' || c == '\t'):
			w.text = b.String()
			return w, i, nil
		default:
			b.WriteByte(c)
		}
	}
	if inside {
		return word{}, 0, fmt.Errorf("quote is not closed: %s", text)
	}
	w.text = b.String()
	return w, i, nil
}

var interval = regexp.MustCompile(`^(.*?)(\d+)\.\.(\d+)(.*)$`)

// expandIntervals turns gpu-0..2 into gpu-0, gpu-1 and gpu-2. Several intervals
// in one word are expanded with the last one fastest.
func expandIntervals(text string) ([]string, error) {
	m := interval.FindStringSubmatch(text)
	if m == nil {
		return []string{text}, nil
	}
	from, errFrom := strconv.Atoi(m[2])
	to, errTo := strconv.Atoi(m[3])
	if errFrom != nil || errTo != nil || to < from || to-from >= maxInterval {
		return nil, fmt.Errorf("%s: interval must rise and have at most %d numbers", text, maxInterval)
	}
	tails, err := expandIntervals(m[4])
	if err != nil {
		return nil, err
	}
	var all []string
	for i := from; i <= to; i++ {
		for _, tail := range tails {
			all = append(all, m[1]+strconv.Itoa(i)+tail)
		}
	}
	return all, nil
}

// maxInterval bounds what one line of a story can create.
const maxInterval = 10_000

// foldIntervals is the reverse of expandIntervals for output: runs of names that
// differ in a last number that rises by one become one word.
func foldIntervals(names []string) []string {
	var folded []string
	for i := 0; i < len(names); {
		prefix, first, ok := trailingNumber(names[i])
		next := i + 1
		for ok && next < len(names) && names[next] == prefix+strconv.Itoa(first+next-i) {
			next++
		}
		if next-i > 2 {
			folded = append(folded, fmt.Sprintf("%s%d..%d", prefix, first, first+next-i-1))
			i = next
			continue
		}
		folded = append(folded, names[i])
		i++
	}
	return folded
}

// trailingNumber splits a name before its last number. Numbers that are not
// written the way they are counted, like 007, are left alone.
func trailingNumber(name string) (prefix string, number int, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	number, err := strconv.Atoi(name[len(prefix):])
	return prefix, number, err == nil && strconv.Itoa(number) == name[len(prefix):]
}
