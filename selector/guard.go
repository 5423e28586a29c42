// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// CEL counts the cost of a call when the call is over, and nothing ends a call before.
// A single one could take hours, or all memory. A guarded program refuses such calls
// before they begin.

// guard makes guarded programs in one environment.
type guard struct {
	env *celgo.Env
	// functions implement the calls that are checked, by overload and by name.
	functions map[string]functions.FunctionOp
}

func newGuard(env *celgo.Env) (*guard, error) {
	g := &guard{env: env, functions: map[string]functions.FunctionOp{}}
	declared := env.Functions()
	for name := range checks {
		bindings, err := declared[name].Bindings()
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		for _, b := range bindings {
			g.functions[b.Operator] = implementation(b)
		}
	}
	return g, nil
}

// program returns the guarded program of an expression that compiles, nil where it
// needs none.
func (g *guard) program(parsed *celgo.Ast) (celgo.Program, error) {
	if !daring(parsed.NativeRep().Expr()) {
		return nil, nil
	}
	checked, issues := g.env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	return g.env.Program(checked,
		celgo.CostLimit(resourceapi.CELSelectorExpressionMaxCost),
		celgo.InterruptCheckFrequency(celconfig.CheckFrequency),
		celgo.CostTracking(&estimator{}),
		celgo.CustomDecoratorV2(g.decorate))
}

// implementation is that of an overload for any number of arguments.
func implementation(o *functions.Overload) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		switch {
		case o.OperandTrait != 0 && !args[0].Type().HasTrait(o.OperandTrait):
			return types.MaybeNoSuchOverloadErr(args[0])
		case len(args) == 1 && o.Unary != nil:
			return o.Unary(args[0])
		case len(args) == 2 && o.Binary != nil:
			return o.Binary(args[0], args[1])
		case o.Function != nil:
			return o.Function(args...)
		}
		return types.NoSuchOverloadErr()
	}
}

// daring reports whether an expression calls what is checked, or makes values that
// may grow. Most do neither.
func daring(e ast.Expr) bool {
	found := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind, ast.MapKind:
			found = true
		case ast.CallKind:
			name := e.AsCall().FunctionName()
			found = found || checkedNames[name] || name == operators.Add
		case ast.ListKind:
			for _, element := range e.AsList().Elements() {
				found = found || element.Kind() != ast.LiteralKind
			}
		}
	}))
	return found
}

// checkedNames are the names of functions with checks as they are parsed, when a
// namespace is still taken for a receiver.
var checkedNames = func() map[string]bool {
	names := map[string]bool{}
	for name := range checks {
		names[name[strings.LastIndex(name, ".")+1:]] = true
	}
	return names
}()

// decorate guards a node of a program.
func (g *guard) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := node.(type) {
	case interpreter.InterpretableCall:
		return &boundedCall{g.call(node)}, nil
	case interpreter.InterpretableConstructor:
		if slices.ContainsFunc(node.InitVals(), varies) {
			return &boundedConstructor{node}, nil
		}
	}
	return node, nil
}

// varies reports whether a part of a list or map is computed. CEL makes constants of
// those that have none.
func varies(part interpreter.InterpretableV2) bool {
	_, constant := part.(interpreter.InterpretableConst)
	return !constant
}

// call returns the call with a check before it, where its function has one.
func (g *guard) call(call interpreter.InterpretableCall) interpreter.InterpretableCall {
	check, args := checks[call.Function()], call.Args()
	implementation := g.functions[call.OverloadID()]
	if implementation == nil {
		implementation = g.functions[call.Function()]
	}
	if check == nil || implementation == nil {
		return call // none of ours, or an overload that CEL does not know either
	}
	if isRegex(call.Function()) && len(args) > 1 {
		if pattern, ok := args[1].(interpreter.InterpretableConst); ok {
			// CEL replaces this call by one with a compiled expression: the check
			// goes to the text that it is matched with.
			args = append([]interpreter.InterpretableV2{}, args...)
			args[0] = &checkedText{args[0], call.Function(), pattern.Value()}
		}
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, func(values ...ref.Val) ref.Val {
		switch err := check(values); {
		case err != nil && call.Function() == "isQuantity":
			return types.False // it asks whether quantity would fail
		case err != nil:
			return types.NewErr("%s: %v", call.Function(), err)
		}
		return implementation(values...)
	})
}

// checkedText is the text that a constant regular expression is matched with.
type checkedText struct {
	interpreter.InterpretableV2
	function string
	pattern  ref.Val
}

// Exec implements interpreter.InterpretableV2.
func (c *checkedText) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	text := c.InterpretableV2.Exec(frame)
	if types.IsUnknownOrError(text) {
		return text
	}
	if err := checks[c.function]([]ref.Val{text, c.pattern}); err != nil {
		return types.NewErr("%s: %v", c.function, err)
	}
	return text
}

// Eval implements interpreter.Interpretable.
func (c *checkedText) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// boundedCall is a call whose result may not grow without end.
type boundedCall struct{ interpreter.InterpretableCall }

// Exec implements interpreter.InterpretableV2.
func (c *boundedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return bounded(c.InterpretableCall.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (c *boundedCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// boundedConstructor is a list or map that may not grow without end: one that has
// another twice, which has another twice, does.
type boundedConstructor struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (c *boundedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return bounded(c.InterpretableConstructor.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (c *boundedConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

const (
	// maxWeight bounds the elements of a value, those of its elements included. A string
	// counts as one for each charsPerWeight. All that a device has comes to some hundreds.
	maxWeight      = 4096
	charsPerWeight = 16
	// maxText is the longest string.
	maxText = maxWeight * charsPerWeight
)

func bounded(value ref.Val) ref.Val {
	if weigh(value, maxWeight) < 0 {
		return types.NewErr("a value of more than %d elements or %d characters is not computed with", maxWeight, maxText)
	}
	return value
}

// weigh returns what is left of a weight without that of the value; below zero it
// did not look at all of it.
func weigh(value ref.Val, left int) int {
	switch value := value.(type) {
	case types.String:
		return left - len(value)/charsPerWeight
	case types.Bytes:
		return left - len(value)/charsPerWeight
	case *types.Optional:
		if value.HasValue() {
			return weigh(value.GetValue(), left-1)
		}
	case traits.Lister:
		return weighElements(value, left, func(ref.Val) ref.Val { return nil })
	case traits.Mapper:
		return weighElements(value, left, value.Get)
	}
	return left
}

// sized is a list, or a map.
type sized interface {
	traits.Iterable
	traits.Sizer
}

// weighElements weighs elements, or keys with what they stand for.
func weighElements(of sized, left int, value func(key ref.Val) ref.Val) int {
	size, ok := of.Size().(types.Int)
	if !ok || int64(size) > int64(left) {
		return -1
	}
	left -= int(size)
	for i := of.Iterator(); left >= 0 && i.HasNext() == types.True; {
		element := i.Next()
		left = weigh(element, left)
		if v := value(element); left >= 0 && v != nil {
			left = weigh(v, left)
		}
	}
	return left
}

func tooLarge(what string, n, most int) error {
	return fmt.Errorf("%s of %d, want %d at most", what, n, most)
}
