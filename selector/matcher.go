// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	celgo "github.com/google/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"kerf.dev/kerf/inventory"
)

const (
	// maxPrograms bounds the compiled expressions, which take some 50 KiB each.
	maxPrograms = 512
	// Answers are spread over shards, each with a lock of its own. Together
	// they remember half a million, about a quarter of a KiB each.
	shards     = 64
	shardLimit = 8192
)

// Matcher evaluates expressions and remembers the answers; it is what package
// alloc asks. Its zero value is not usable, see [New].
type Matcher struct {
	compile  func(string, cel.Options) cel.CompilationResult
	guard    *guard
	programs *lru.Cache[source, *program]
	answers  [shards]*lru.Cache[question, answer]
}

// source is an expression; derived attributes may have types of results that
// selectors may not.
type source struct {
	expression string
	derived    bool
}

// program is a compiled expression, or the error that it does not compile with.
type program struct {
	source
	cel.CompilationResult
	err error
	// comparisons are what [Matcher.Comparisons] returns, with compared for complete.
	comparisons []inventory.Comparison
	compared    bool
}

type question struct {
	source
	content inventory.Content
}

// answer is what an expression gives on a device: match of a selector, attribute
// of a derived attribute, or an error.
type answer struct {
	match     bool
	attribute *resourceapi.DeviceAttribute
	cost      uint64
	err       error
}

// Stop ends an evaluation before its time. Every context.Context is one.
type Stop = interface {
	Done() <-chan struct{}
	Err() error
}

// New returns a Matcher for the expressions of Kubernetes 1.37, with consumable
// capacity and list attributes.
func New() *Matcher {
	features := cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	return newMatcher(cel.GetCompiler(features).CompileCELExpression)
}

// Cache is the cache of compiled expressions that the stock allocator and its
// callers use.
type Cache = cel.Cache

// WithCache returns a Matcher that compiles with the cache, and so with the
// features that the cache was made with. It is for callers that own one already.
func WithCache(cache *Cache) *Matcher {
	return newMatcher(func(expression string, options cel.Options) cel.CompilationResult {
		if options.DerivedAttribute {
			return cache.GetOrCompileDerivedAttribute(expression)
		}
		return cache.GetOrCompile(expression)
	})
}

func newMatcher(compile func(string, cel.Options) cel.CompilationResult) *Matcher {
	guard, err := newGuard(compile("true", cel.Options{DisableCostEstimation: true}).Environment)
	if err != nil {
		panic(fmt.Sprintf("selector: %v", err)) // the functions are constants, too
	}
	m := &Matcher{compile: compile, guard: guard, programs: newCache[source, *program](maxPrograms)}
	for i := range m.answers {
		m.answers[i] = newCache[question, answer](shardLimit)
	}
	return m
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(fmt.Sprintf("selector: cache of %d: %v", size, err)) // the sizes are constants
	}
	return cache
}

// Compile reports whether the expression is a valid selector.
func (m *Matcher) Compile(expression string) error {
	return m.program(source{expression: expression}).err
}

// CompileDerived reports whether the expression is valid for a derived attribute.
func (m *Matcher) CompileDerived(expression string) error {
	return m.program(source{expression: expression, derived: true}).err
}

// Match evaluates a selector on a device. cost is what that takes in CEL's units, now
// or when it was evaluated, with what CEL does not charge for: at most
// resourceapi.CELSelectorExpressionMaxCost, some 0.2 s. The error is the one of Compile, that of stop, which may be nil, or a
// *RuntimeError.
func (m *Matcher) Match(stop Stop, expression string, device *inventory.Device) (match bool, cost uint64, err error) {
	a := m.ask(stop, source{expression: expression}, device)
	return a.match, a.cost, a.errorOn(device)
}

// Derive evaluates a derived attribute on a device. The attribute is shared and
// must not be changed. The error is the one of CompileDerived, that of stop, or a
// *RuntimeError.
func (m *Matcher) Derive(stop Stop, expression string, device *inventory.Device) (attribute *resourceapi.DeviceAttribute, cost uint64, err error) {
	a := m.ask(stop, source{expression: expression, derived: true}, device)
	return a.attribute, a.cost, a.errorOn(device)
}

// errorOn returns the error of an answer as one of this device: answers are
// shared by devices of the same content.
func (a *answer) errorOn(device *inventory.Device) error {
	if a.err == nil {
		return nil
	}
	if shared := (*RuntimeError)(nil); errors.As(a.err, &shared) && shared.Device != device.ID {
		own := *shared
		own.Device = device.ID
		return &own
	}
	return a.err
}

func (m *Matcher) ask(stop Stop, s source, device *inventory.Device) answer {
	q := question{source: s, content: device.Content()}
	known := m.answers[q.content[0]%shards]
	if a, found := known.Get(q); found {
		return a
	}
	p := m.program(s)
	if p.err != nil {
		return answer{err: p.err}
	}
	a := p.evaluate(contextOf(stop), device)
	if stop != nil && stop.Err() != nil {
		return answer{err: stop.Err()} // not one to remember
	}
	q.source = p.source // one copy of the text for all answers
	known.Add(q, a)
	return a
}

// program compiles an expression, or returns what came of it before.
func (m *Matcher) program(s source) *program {
	if p, found := m.programs.Get(s); found {
		return p
	}
	p := &program{source: s}
	if n := len(s.expression); n > resourceapi.CELSelectorExpressionMaxLength {
		p.err = fmt.Errorf("expression of %d bytes is too long, must not have more than %d", n, resourceapi.CELSelectorExpressionMaxLength)
		return p
	}
	p.CompilationResult, p.err = m.guarded(p)
	m.programs.Add(s, p)
	return p
}

// guarded compiles an expression to a program that ends. It notes what the expression
// compares.
func (m *Matcher) guarded(s *program) (result cel.CompilationResult, err error) {
	parsed, issues := m.guard.env.Parse(s.expression)
	if issues.Err() == nil {
		if err := checkRegexes(parsed.NativeRep().Expr()); err != nil {
			return result, err
		}
		s.comparisons, s.compared = comparisonsIn(parsed.NativeRep().Expr())
	}
	result = m.compile(s.expression, cel.Options{DisableCostEstimation: true, DerivedAttribute: s.derived})
	if result.Error != nil {
		return result, result.Error
	}
	if program, err := m.guard.program(parsed); err != nil || program != nil {
		result.Program = program
		return result, err
	}
	return result, nil
}

// stopContext is a Stop as CEL wants it.
type stopContext struct {
	context.Context
	stop Stop
}

func (c stopContext) Done() <-chan struct{} { return c.stop.Done() }
func (c stopContext) Err() error            { return c.stop.Err() }

func contextOf(stop Stop) context.Context {
	switch stop := stop.(type) {
	case nil:
		return context.Background()
	case context.Context:
		return stop
	default:
		return stopContext{context.Background(), stop}
	}
}

func (p *program) evaluate(ctx context.Context, device *inventory.Device) answer {
	spec := inventory.OneSpelling(device.ID.Driver, device.Spec)
	input := cel.Device{
		Driver:                   device.ID.Driver,
		AllowMultipleAllocations: spec.AllowMultipleAllocations,
		Attributes:               spec.Attributes,
		Capacity:                 spec.Capacity,
	}
	var a answer
	var details *celgo.EvalDetails
	var err error
	if p.derived {
		a.attribute, details, err = p.EvaluateDerivedAttribute(ctx, input)
	} else {
		a.match, details, err = p.DeviceMatches(ctx, input)
	}
	a.cost = costOf(details)
	if err == nil {
		return a
	}
	if malformed := malformedVersion(spec.Attributes); malformed != nil {
		err = malformed
	}
	return answer{cost: a.cost, err: runtimeError(device.ID, err)}
}

// costOf is what an evaluation took: nothing without details, for it was not begun
// then. Where CEL does not say it may have been all that is allowed.
func costOf(details *celgo.EvalDetails) uint64 {
	switch {
	case details == nil:
		return 0
	case details.ActualCost() == nil:
		return resourceapi.CELSelectorExpressionMaxCost
	}
	return min(*details.ActualCost(), resourceapi.CELSelectorExpressionMaxCost)
}

// malformedVersion returns the error of the first attribute, by name, that is
// not a semantic version though it should be. Such an attribute fails every
// expression; CEL's input reports any one of them.
func malformedVersion(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		versions := attributes[name].VersionValues
		if version := attributes[name].VersionValue; version != nil {
			versions = []string{*version}
		}
		for _, version := range versions {
			if _, err := semver.Parse(version); err != nil {
				return fmt.Errorf("attribute %s: version %q: %w", name, version, err)
			}
		}
	}
	return nil
}
