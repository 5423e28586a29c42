// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Why a selector matches nothing is easy to say where it compares properties of the
// device with constants. What is more than that is not understood here.

const (
	// maxComparisons bounds what is kept of one expression.
	maxComparisons = 8
	// maxCompared bounds the values of a list.
	maxCompared = 32
)

// Comparisons returns conditions all of which a device must meet for the selector to
// match, in the order of the expression. complete is set where there are no others. What
// does not compare a property with a constant is left out, and all of it where the
// expression does not compile.
func (m *Matcher) Comparisons(expression string) (comparisons []inventory.Comparison, complete bool) {
	p := m.program(source{expression: expression})
	if p.err != nil {
		return nil, false
	}
	return p.comparisons, p.compared
}

// comparisonsIn collects the comparisons of a conjunction.
func comparisonsIn(e ast.Expr) (comparisons []inventory.Comparison, complete bool) {
	complete = true
	var collect func(e ast.Expr)
	collect = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, arg := range e.AsCall().Args() {
				collect(arg)
			}
			return
		}
		c, ok := comparison(e)
		if !ok || len(comparisons) == maxComparisons {
			complete = false
			return
		}
		comparisons = append(comparisons, c)
	}
	collect(e)
	return comparisons, complete
}

// operatorsOf are those of CEL and, for the arguments the other way round, their mirrors.
var operatorsOf = map[string][2]inventory.Operator{
	operators.Equals:        {inventory.Equal, inventory.Equal},
	operators.NotEquals:     {inventory.NotEqual, inventory.NotEqual},
	operators.Less:          {inventory.Less, inventory.Greater},
	operators.LessEquals:    {inventory.LessOrEqual, inventory.GreaterOrEqual},
	operators.Greater:       {inventory.Greater, inventory.Less},
	operators.GreaterEquals: {inventory.GreaterOrEqual, inventory.LessOrEqual},
}

// comparison understands property == constant and the like. A property by itself is one
// that is to be true.
func comparison(e ast.Expr) (c inventory.Comparison, ok bool) {
	if p, ok := property(e); ok {
		return inventory.Comparison{Property: p, Operator: inventory.Equal, Values: []inventory.Value{inventory.BoolOf(true)}}, !p.Capacity
	}
	if e.Kind() != ast.CallKind {
		return c, false
	}
	call := e.AsCall()
	if call.IsMemberFunction() {
		return ordered(call)
	}
	args := call.Args()
	switch name := call.FunctionName(); {
	case name == operators.LogicalNot:
		p, ok := property(args[0])
		return inventory.Comparison{Property: p, Operator: inventory.Equal, Values: []inventory.Value{inventory.BoolOf(false)}}, ok && !p.Capacity
	case name == operators.In:
		return among(args[0], args[1])
	case len(args) == 2:
		operator, known := operatorsOf[name]
		if !known {
			return c, false
		}
		if c, ok := against(args[0], operator[0], args[1]); ok {
			return c, true
		}
		return against(args[1], operator[1], args[0])
	}
	return c, false
}

// against understands property OPERATOR constant, and property.compareTo(constant) OPERATOR 0.
func against(left ast.Expr, operator inventory.Operator, right ast.Expr) (c inventory.Comparison, ok bool) {
	if left.Kind() == ast.CallKind && left.AsCall().IsMemberFunction() && left.AsCall().FunctionName() == "compareTo" {
		if right.Kind() != ast.LiteralKind || right.AsLiteral() != types.IntZero {
			return c, false
		}
		left, right = left.AsCall().Target(), only(left.AsCall().Args())
	}
	p, isProperty := property(left)
	v, isConstant := constant(right)
	return inventory.Comparison{Property: p, Operator: operator, Values: []inventory.Value{v}}, isProperty && isConstant
}

// ordered understands property.isGreaterThan(constant) and isLessThan.
func ordered(call ast.CallExpr) (c inventory.Comparison, ok bool) {
	operator := map[string]inventory.Operator{"isGreaterThan": inventory.Greater, "isLessThan": inventory.Less}[call.FunctionName()]
	if operator == "" {
		return c, false
	}
	return against(call.Target(), operator, only(call.Args()))
}

// only returns the argument of a function that has one; nil otherwise, which is no
// constant.
func only(args []ast.Expr) ast.Expr {
	if len(args) != 1 {
		return nil
	}
	return args[0]
}

// among understands property in [constant, constant].
func among(left, right ast.Expr) (c inventory.Comparison, ok bool) {
	p, ok := property(left)
	if !ok || right.Kind() != ast.ListKind {
		return c, false
	}
	elements := right.AsList().Elements()
	if len(elements) == 0 || len(elements) > maxCompared {
		return c, false
	}
	c = inventory.Comparison{Property: p, Operator: inventory.Equal}
	for _, element := range elements {
		v, ok := constant(element)
		if !ok {
			return c, false
		}
		c.Values = append(c.Values, v)
	}
	return c, true
}

// constant understands literals, and quantities and versions that are made of one.
func constant(e ast.Expr) (v inventory.Value, ok bool) {
	switch {
	case e == nil:
		return v, false
	case e.Kind() == ast.LiteralKind:
		switch literal := e.AsLiteral().(type) {
		case types.String:
			return inventory.StringOf(string(literal)), true
		case types.Int:
			return inventory.IntOf(int64(literal)), true
		case types.Bool:
			return inventory.BoolOf(bool(literal)), true
		}
	case e.Kind() == ast.CallKind && !e.AsCall().IsMemberFunction():
		argument, ok := literalText(only(e.AsCall().Args()))
		switch name := e.AsCall().FunctionName(); {
		case ok && name == "quantity":
			return inventory.QuantityOf(argument)
		case ok && name == "semver":
			return inventory.VersionOf(argument)
		}
	}
	return v, false
}

func literalText(e ast.Expr) (string, bool) {
	if e == nil || e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// property understands device.attributes["domain"].name and device.capacity["domain"].name,
// also with ["name"].
func property(e ast.Expr) (p inventory.Property, ok bool) {
	domains, name, ok := member(e)
	if !ok {
		return p, false
	}
	of, domain, ok := member(domains)
	if !ok || of.Kind() != ast.SelectKind || of.AsSelect().IsTestOnly() {
		return p, false
	}
	kind, device := of.AsSelect().FieldName(), of.AsSelect().Operand()
	if device.Kind() != ast.IdentKind || device.AsIdent() != "device" || !slices.Contains([]string{"attributes", "capacity"}, kind) {
		return p, false
	}
	return inventory.Property{Capacity: kind == "capacity", Name: resourceapi.FullyQualifiedName(domain + "/" + name)}, true
}

// member understands of.name and of["name"].
func member(e ast.Expr) (of ast.Expr, name string, ok bool) {
	switch {
	case e == nil:
	case e.Kind() == ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), !e.AsSelect().IsTestOnly()
	case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Index:
		args := e.AsCall().Args()
		name, ok := literalText(args[1])
		return args[0], name, ok
	}
	return nil, "", false
}
