// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Source is a rule of a file.
type Source struct {
	File string
	// Line counts from 1.
	Line int
}

func (s Source) String() string { return s.File + ":" + strconv.Itoa(s.Line) }

// Refusal says why a good file is left out: what it asks for contradicts the
// driver or another file on a device, or the API does not allow it.
type Refusal struct {
	// Source is the line of the file that is left out.
	Source
	Field        string
	Pool, Device string
	// Others are the rules that stand against it. Without any, it is the driver.
	Others       []Source
	Problem, Fix string
}

func (r *Refusal) Error() string {
	by := "its driver"
	if len(r.Others) > 0 {
		names := make([]string, len(r.Others))
		for i, other := range r.Others {
			names[i] = other.String()
		}
		by = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s: %s: device %s in pool %s: %s from %s: %s; until then %s is not used", r.Source, r.Field, r.Device, r.Pool, r.Problem, by, r.Fix, r.File)
}

// show writes a value as files do.
func show(a resourceapi.DeviceAttribute) string {
	text, err := json.Marshal(a)
	if err != nil {
		return a.String()
	}
	return string(text)
}
