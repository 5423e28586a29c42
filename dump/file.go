// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/document"
)

// A file that Marshal writes begins and ends with these lines. The metadata are a
// flow mapping, which is no YAML where it is cut.
const (
	begin = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\nmetadata: {"
	seal  = "sealed: true}"
	end   = "end: true"
)

// CutOffProblem is what is wrong with a dump that is cut off.
const CutOffProblem = "the dump is cut off; write it again"

// Marshal returns the dump as YAML, with its objects reduced and sorted, however
// they came into it.
func (d *Dump) Marshal() ([]byte, error) {
	written := reduced(&d.Objects)
	written.Sort()
	objects, err := yaml.Marshal(struct {
		Missing         []Gap `json:"missing,omitempty"`
		cluster.Objects `json:",inline"`
	}{d.Missing, *written})
	if err != nil {
		return nil, unwritable(written, err)
	}
	if string(objects) == "{}\n" {
		objects = nil
	}
	head := fmt.Sprintf("%sname: %q, %s\n", begin, d.Metadata.Name, seal)
	return bytes.Join([][]byte{[]byte(head), objects, []byte(end + "\n")}, nil), nil
}

// unwritable names the first object that cannot be written: YAML has keys of 1024
// characters at most.
func unwritable(objects *cluster.Objects, problem error) error {
	lists := reflect.ValueOf(objects).Elem()
	for i := range lists.NumField() {
		for k := range lists.Field(i).Len() {
			object, ok := lists.Field(i).Index(k).Interface().(metav1.Object)
			if !ok {
				continue
			}
			if _, err := yaml.Marshal(object); err != nil {
				name, _, _ := strings.Cut(lists.Type().Field(i).Tag.Get("json"), ",")
				return fmt.Errorf("%s: %s: cannot be written as YAML, is the key of a label, attribute or resource longer than 1024 characters? shorten it: %w",
					name, strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"), err)
			}
		}
	}
	return problem
}

// Unmarshal reads a dump from YAML or JSON. The error says what is not known or
// of the wrong type, or that the dump is cut off.
func Unmarshal(data []byte) (*Dump, error) {
	if CutOff(data) {
		return nil, errors.New(CutOffProblem)
	}
	d := &Dump{}
	if err := document.Check(data, d); err != nil {
		return nil, fmt.Errorf("not a dump: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		return nil, fmt.Errorf("not a dump: %w", err)
	}
	if d.Kind != Kind {
		return nil, fmt.Errorf("kind: is %q, want %s", d.Kind, Kind)
	}
	if d.APIVersion != APIVersion {
		return nil, fmt.Errorf("apiVersion: is %q, this version of kerf reads %s", d.APIVersion, APIVersion)
	}
	if d.Metadata.Name == "" {
		return nil, errors.New("metadata.name: is missing")
	}
	if d.Unfinished() {
		return nil, errors.New("end: is missing: " + CutOffProblem)
	}
	return d, nil
}

// CutOff reports whether the text is the beginning of a file that Marshal wrote,
// and not all of it. Such a text need not be YAML.
func CutOff(text []byte) bool {
	if !bytes.HasPrefix(text, []byte(begin)) {
		return false
	}
	text = bytes.TrimRight(text, "\n")
	return bytes.Contains(text, []byte(seal)) && !bytes.HasSuffix(text, []byte("\n"+end)) && !bytes.Contains(text, []byte("\n"+end+"\n"))
}

// Unfinished reports whether the dump lacks the end that it announces.
func (d *Dump) Unfinished() bool { return d.Metadata.Sealed && !d.End }
