// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// clause is a keyword and the words up to the next keyword.
type clause struct {
	keyword string
	words   []word
}

// cutClauses splits words into those before the first keyword and the clauses.
func cutClauses(words []word, keywords ...string) (lead []word, clauses []clause) {
	for _, w := range words {
		switch {
		case !w.quoted && slices.Contains(keywords, w.text):
			clauses = append(clauses, clause{keyword: w.text})
		case len(clauses) == 0:
			lead = append(lead, w)
		default:
			last := &clauses[len(clauses)-1]
			last.words = append(last.words, w)
		}
	}
	return lead, clauses
}

// one returns the only word of a clause.
func (c clause) one() (string, error) {
	if len(c.words) != 1 {
		return "", fmt.Errorf("%s: want one word after it, have %d", c.keyword, len(c.words))
	}
	return c.words[0].text, nil
}

// number returns the only word of a clause, a number.
func (c clause) number() (int64, error) {
	text, err := c.one()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", c.keyword, text)
	}
	return n, nil
}

// names returns the words of a clause with their intervals expanded.
func (c clause) names() ([]string, error) {
	names, err := expandWords(c.words)
	if err == nil && len(names) == 0 {
		return nil, fmt.Errorf("%s: want a word after it", c.keyword)
	}
	return names, err
}

func expandWords(words []word) ([]string, error) {
	var names []string
	for _, w := range words {
		expanded, err := expandIntervals(w.text)
		if err != nil {
			return nil, err
		}
		names = append(names, expanded...)
	}
	return names, nil
}

// setting is one KEY=VALUE.
type setting struct {
	key, value string
	quoted     bool
}

// settings reads KEY=VALUE words; intervals in keys are expanded.
func settings(words []word) ([]setting, error) {
	var all []setting
	for _, w := range words {
		key, value, found := strings.Cut(w.text, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE", w.text)
		}
		keys, err := expandIntervals(key)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			all = append(all, setting{key: k, value: value, quoted: w.quoted})
		}
	}
	return all, nil
}

// quantities reads KEY=QUANTITY words.
func quantities(words []word) (map[string]resource.Quantity, error) {
	all, err := settings(words)
	if err != nil {
		return nil, err
	}
	amounts := make(map[string]resource.Quantity, len(all))
	for _, s := range all {
		q, err := inventory.ParseQuantity(s.value)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", s.key, s.value, err)
		}
		amounts[s.key] = q
	}
	return amounts, nil
}
