// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// binds nests expressions: each has the one before as v and the last is the body.
func binds(first string, rounds int, next, body string) string {
	text := body
	for range rounds {
		text = "cel.bind(v, " + next + ", " + text + ")"
	}
	return "cel.bind(v, " + first + ", " + text + ")"
}

// TestEndless evaluates what CEL by itself computes for hours or takes all memory for,
// though it costs next to nothing in its units.
func TestEndless(t *testing.T) {
	x := strings.Repeat("x", 500)
	d := device("gpu-0", func(d *resourceapi.Device) {
		d.Attributes["size"] = resourceapi.DeviceAttribute{StringValue: ptr("1e-999999999")}
		d.Attributes["sizes"] = resourceapi.DeviceAttribute{StringValues: []string{"1Gi", "1e-999999999"}}
		d.Attributes["pattern"] = resourceapi.DeviceAttribute{StringValue: ptr(strings.Repeat("((a|b|c){90}){11}", 12))}
	})
	for expression, want := range map[string]string{
		`quantity("1e-999999999").isInteger()`:                                                                    "quantity: is \"1e-999999999\", want an exponent",
		`quantity("1e-999999999") == quantity("1")`:                                                               "quantity: is \"1e-999999999\"",
		`quantity("1e999999999").isLessThan(quantity("1"))`:                                                       "want an exponent",
		`quantity("1e-" + "999999999").isInteger()`:                                                               "want an exponent",
		`quantity(true ? "1e-999999999" : "1").isInteger()`:                                                       "want an exponent",
		`["1", "1e-999999999"].all(q, quantity(q).isInteger())`:                                                   "want an exponent",
		`[1].map(n, quantity("1e-99999999" + string(n))).size() == 0`:                                             "want an exponent",
		`quantity(device.attributes["gpu.example.com"].size).isInteger()`:                                         "want an exponent",
		`quantity(dyn(device.attributes["gpu.example.com"]).size).isInteger()`:                                    "want an exponent",
		`cel.bind(gpu, device.attributes["gpu.example.com"], quantity(gpu.size).isInteger())`:                     "want an exponent",
		`device.attributes["gpu.example.com"].sizes.all(s, quantity(s).isInteger())`:                              "want an exponent",
		`quantity(device.attributes["gpu.example.com"].?size.orValue("0")).isInteger()`:                           "want an exponent",
		`cel.bind(r, "(a|b|c){900}", "d".matches(r + r + r + r))`:                                                 "matches: a regular expression of",
		`"d".matches(device.attributes["gpu.example.com"].pattern)`:                                               "matches: a regular expression of",
		binds(`"`+x+`"`, 2, "v + v + v + v + v", `"y".matches(v)`):                                                "matches: a regular expression of",
		binds(`"`+x+`"`, 1, "v + v + v + v + v", `v.find("(x{900}|y{900})")`) + ` == ""`:                          "find: a regular expression times a text of",
		binds(`"`+x+`"`, 1, "v + v + v + v + v", `v.findAll("x*y").size() == 0`):                                  "findAll: a regular expression times a text of",
		`"` + x + `".replace("", "` + x + `").size() == 0`:                                                        "replace: a text of 251000",
		binds(`"`+x+`"`, 20, "v + v", `v.size() == 0`):                                                            "a value of more than",
		binds(`[1]`, 40, "v + v", `1 in v`):                                                                       "a value of more than",
		binds(`[1]`, 40, "v + v", `v == v`):                                                                       "a value of more than",
		binds(`[1]`, 40, "v + v", `v.sum() == 0`):                                                                 "a value of more than",
		`[1,2,3,4].map(a, [1,2,3,4].map(b, [1,2,3,4].map(c, lists.range(1000)))).size() == 0`:                     "a value of more than",
		`lists.range(10000000).size() == 0`:                                                                       "lists.range: a list of 10000000",
		`lists.range(4000).distinct().size() == 0`:                                                                "cost limit exceeded",
		`lists.range(4000).sort().size() == 0`:                                                                    "cost limit exceeded",
		`lists.range(1000).sortBy(n, -n).size() == 0`:                                                             "cost limit exceeded",
		`lists.range(1500).size() > 0 && sets.contains(lists.range(1500), lists.range(1500))`:                     "cost limit exceeded",
		`lists.range(700).map(n, "` + x[:30] + `").join("` + x + `").size() == 0`:                                 "join: a text of",
		`"%.999999f".format([1.0]).size() == 0`:                                                                   "format: a precision of 999999",
		binds(`"`+x+`"`, 1, "v + v + v + v + v", `v.indexOf(v + "y") == 0`):                                       "indexOf: a product",
		`["(a|b|c){900}"].all(r, lists.range(1000).all(n, !"d".matches(r)))`:                                      "cost limit exceeded",
		nestedLists(40) + ` == 0`:                                                                                 "a value of more than",
		`lists.range(2000).transformMap(i, v, lists.range(2000)).size() == 0`:                                     "a value of more than",
		`lists.range(100).map(n, {"a": lists.range(1000)}).size() == 0`:                                           "a value of more than",
		`lists.range(100).map(n, optional.of(lists.range(1000))).size() == 0`:                                     "a value of more than",
		`device.attributes["gpu.example.com"].sizes.map(s, quantity(s).asApproximateFloat()).exists(f, f > 9e99)`: "want an exponent",
	} {
		match, cost, err := New().Match(nil, expression, d)
		if runtime := (*RuntimeError)(nil); match || !errors.As(err, &runtime) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: got %v, %.200v, want a run-time error with %q", expression, match, err, want)
		}
		if cost > resourceapi.CELSelectorExpressionMaxCost {
			t.Errorf("%.90s: cost %d above the limit", expression, cost)
		}
	}
}

// nestedLists is the size of a list that has one twice that has one twice ...
func nestedLists(depth int) string {
	return binds("[1, 1]", 1, "[v, v]", strings.TrimSuffix(binds("[v, v]", depth, "[dyn(v), dyn(v)]", "(v == v ? 1 : 2)"), ""))
}

// TestLargeRegexes compiles regular expressions that are text of the expression, which
// CEL does before it evaluates.
func TestLargeRegexes(t *testing.T) {
	many := strings.Repeat(` || "d".matches("((a|b|c){90}){11}")`, 200)
	for _, expression := range []string{
		"false" + many,
		strings.ReplaceAll(strings.ReplaceAll("false"+many, "matches", "find"), `11}")`, `11}") != ""`),
		strings.ReplaceAll("false"+many, `matches("((a|b|c){90}){11}")`, `matches(string(b"((a|b|c){90}){11}"))`),
	} {
		if err := New().Compile(expression); err == nil || !strings.Contains(err.Error(), "the regular expressions come to") {
			t.Errorf("got %.200v, want an error about regular expressions", err)
		}
	}
}

// TestGuardedAlike evaluates with and without guards, and finds the same.
func TestGuardedAlike(t *testing.T) {
	d := device("gpu-0", nil)
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	for _, expression := range []string{
		`quantity("80Gi").compareTo(device.capacity["gpu.example.com"].memory) == 0`,
		`isQuantity("1.5Gi") && !isQuantity("x") && isQuantity("1e3") && isQuantity("1E")`,
		`quantity("x").isInteger()`,
		`"a100".matches("a[0-9]+")`, `"a100".matches("^[0-9]+$")`, `"a100".matches("a" + "[0-9]+")`, `matches("a100", "1.*")`,
		`"a100".matches("(" + "a")`,
		`device.attributes["gpu.example.com"].model.matches("a[0-9]+")`,
		`dyn(3).matches("a")`,
		`"a100 b200".find("[0-9]+") == "100"`, `"a100 b200".findAll("[0-9]+") == ["100", "200"]`, `"a100 b200".findAll("[0-9]" + "+", 1) == ["100"]`,
		`"aaa".replace("a", "bb") == "bbbbbb"`, `"aaa".replace("a", "b", 1) == "baa"`, `"abc".replace("", "-") == "-a-b-c-"`,
		`["a", "b"].join("-") == "a-b"`, `["a", "b"].join() == "ab"`, `"%s %.2f %d".format(["a", 1.5, 3]) == "a 1.50 3"`,
		`"abcb".indexOf("b") == 1 && "abcb".indexOf("b", 2) == 3 && "abcb".lastIndexOf("b") == 3 && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2`,
		`sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])`,
		`lists.range(4) == [0, 1, 2, 3]`, `[3, 1, 3].distinct() == [3, 1] && [3, 1].sort() == [1, 3] && ["b", "aa"].sortBy(s, s.size()) == ["b", "aa"]`,
		`[3, "a"].sort() == [3]`, `dyn("a").sort() == []`, `["a"].sortBy(s, [s]) == []`,
		`device.attributes["gpu.example.com"].links.map(l, l + "x") == ["l0x", "l1x"]`,
		`device.attributes["gpu.example.com"].links.exists(l, l in ["l1", "l2"])`,
		`[1, 2].transformMap(i, v, v * 2)[1] == 4 && {"a": 1}.transformList(k, v, k)[0] == "a"`,
		`device.attributes["gpu.example.com"].nothing.matches("a")`,
		`cel.bind(gpu, device.attributes["gpu.example.com"], gpu.model.startsWith("a") && gpu.links.size() + 1 == 3)`,
		`device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("13.0.0")) && [1, 2].sum() + [3].max() == 6`,
		`int("3") + 1 == 4 && string(3) + "a" == "3a" && timestamp("2020-01-01T00:00:00Z") + duration("1h") > timestamp("2020-01-01T00:00:00Z")`,
		`optional.of(1).hasValue() && device.attributes["gpu.example.com"].?none.orValue("") + "a" == "a"`,
	} {
		got, cost, err := New().Match(nil, expression, d)
		plain := compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
		if plain.Error != nil {
			if err == nil || err.Error() != plain.Error.Error() {
				t.Errorf("%s: got %v, want %v", expression, err, plain.Error)
			}
			continue
		}
		want, details, wantErr := plain.DeviceMatches(context.Background(), cel.Device{Driver: d.ID.Driver, Attributes: d.Spec.Attributes, Capacity: d.Spec.Capacity})
		if runtime := (*RuntimeError)(nil); errors.As(err, &runtime) {
			err = runtime.Cause
		}
		if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%s: got %v, %v, want %v, %v", expression, got, err, want, wantErr)
		}
		if plain := *details.ActualCost(); cost < plain || cost > plain+60 {
			t.Errorf("%s: cost %d, without guard %d", expression, cost, plain)
		}
	}
}
