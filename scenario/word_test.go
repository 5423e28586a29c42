// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitWords(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []word
	}{
		{"", nil},
		{"   # only a comment", nil},
		{"pod a  on n1 # why", []word{{text: "pod"}, {text: "a"}, {text: "on"}, {text: "n1"}}},
		{"a#b", []word{{text: "a#b"}}},
		{"where 'a == \"b c\" # d'", []word{{text: "where"}, {text: `a == "b c" # d`, quoted: true}}},
		{"'it''s' k='v w'", []word{{text: "it's", quoted: true}, {text: "k=v w", quoted: true}}},
		{"''", []word{{quoted: true}}},
	} {
		got, err := splitWords(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(word{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.text, diff)
		}
	}
	if _, err := splitWords("pod 'a"); err == nil {
		t.Error("no error for a quote that is not closed")
	}
}

func TestIntervals(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"gpu", "gpu"},
		{"gpu-0..2", "gpu-0 gpu-1 gpu-2"},
		{"p/gpu-9..11", "p/gpu-9 p/gpu-10 p/gpu-11"},
		{"g0..1-1g-0..1", "g0-1g-0 g0-1g-1 g1-1g-0 g1-1g-1"},
		{"4..4x", "4x"},
	} {
		got, err := expandIntervals(tc.text)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%s = %v, %v, want %s", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"a3..1", "a0..10000", "a0..99999999999999999999"} {
		if got, err := expandIntervals(text); err == nil {
			t.Errorf("%s = %v, want an error", text, got)
		}
	}
}

func TestFoldIntervals(t *testing.T) {
	for _, tc := range []struct{ names, want string }{
		{"", ""},
		{"a b", "a b"},
		{"g0 g1", "g0 g1"},
		{"g0 g1 g2", "g0..2"},
		{"x g8 g9 g10 g12 y7", "x g8..10 g12 y7"},
		{"g2 g1 g0", "g2 g1 g0"},
		{"g08 g09 g10 g11 g12", "g08 g09 g10..12"},
	} {
		if got := fold(strings.Fields(tc.names)); got != tc.want {
			t.Errorf("%s = %s, want %s", tc.names, got, tc.want)
		}
	}
}

func TestLoop(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []bindings
	}{
		{"device a", []bindings{{}}},
		{"device a for i in 0..1", []bindings{{"i": "0"}, {"i": "1"}}},
		{"x for g in a b and i in 1 2", []bindings{{"g": "a", "i": "1"}, {"g": "a", "i": "2"}, {"g": "b", "i": "1"}, {"g": "b", "i": "2"}}},
		{"expect claim for something else", []bindings{{}}},
	} {
		words, err := splitWords(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := cutLoop(words)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.text, diff)
		}
	}
}
