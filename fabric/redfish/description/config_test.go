// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"strings"
	"testing"

	"kerf.dev/kerf/fabric/redfish/description"
)

func TestConfigErrors(t *testing.T) {
	const hosts = "hosts: [{id: a, zones: [left]}]\nzones: [left, right]\n"
	for _, tc := range []struct{ yaml, want string }{
		{"hosts: []", "hosts: there is none"},
		{"hosts: [{}]", "hosts[0].id is missing"},
		{"hosts: [{id: a/b}]", `hosts[0].id is "a/b", want letters`},
		{"hosts: [{id: ..}]", `hosts[0].id is ".."`},
		{"hosts: [{id: a}, {id: a}]", `hosts[1].id is "a", which is taken`},
		{"hosts: [{id: a, zones: [moon]}]", `host "a": zone "moon" is not one of zones (all)`},
		{hosts + "blocks: [{id: a}]", `blocks[0].id is "a", which is taken`},
		{hosts + "blocks: [{id: b, kind: Fridge}]", `block "b": kind is "Fridge"`},
		{hosts + "blocks: [{id: b, count: -1}]", `block "b": count is -1`},
		{hosts + "blocks: [{id: b, count: 2000000000}]", `block "b": count is 2000000000, want 0 to 10000`},
		{hosts + "blocks: &a [*a]", "line 3: aliases"},
		{hosts + "blocks: [{id: b, count: 2, uuid: x}]", `block "b": a count of 2 shares one uuid`},
		{hosts + "blocks: [{id: b, uuid: x}, {id: c, uuid: x}]", `block "c": uuid x is that of block "b"`},
		{hosts + "blocks: [{id: b, memoryMiB: -1}]", `block "b": memoryMiB is -1`},
		{hosts + "blocks: [{id: b, host: z}]", `block "b": host "z" is not one of hosts`},
		{hosts + "blocks: [{id: b, host: a, zones: [right]}]", `block "b": host "a" is in none of its zones`},
		{"hosts: [{id: a}]\nzones: [left, left]", `zones[1] is "left", which is taken`},
		{hosts + "pageSize: -1", "pageSize is -1"},
		{hosts + "without: [sleep]", `without: unknown feature "sleep"`},
		{hosts + "latency: {attach: soon}", `latency.attach: "soon" is not a duration`},
		{hosts + "latency: {attach: 3}", `latency.attach: 3 is not a duration`},
		{hosts + "limits: {retryAfter: -1s}", `limits.retryAfter: "-1s" is not a duration`},
		{hosts + "faults: [{kind: busy}, {kind: vanishes, after: 2}]", `faults[1].after: 2 is not a duration`},
		{hosts + "blocks: [{count: 2}]", `blocks[0].id is missing`},
		{hosts + "blocks: [{id: b, count: 2}, {kind: Processor}]", `blocks[1].id is missing`},
		{hosts + "---\nblocks: [{id: b}]", `there is a second YAML document`},
	} {
		if _, err := description.ParseConfig([]byte(tc.yaml)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s:\ngot %v, want %q", tc.yaml, err, tc.want)
		}
	}
}
