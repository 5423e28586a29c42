// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import "strings"

// Usages are the forms of all verbs and expectations.
func Usages() []string {
	var usages []string
	for _, v := range verbs() {
		if v.name != "expect" {
			usages = append(usages, strings.TrimSpace(v.name+" "+v.usage))
		}
	}
	for _, e := range expectations() {
		usages = append(usages, strings.TrimSpace("expect "+e.noun+" "+e.usage))
	}
	return usages
}
