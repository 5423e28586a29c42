// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/dynamic-resource-allocation/cel"

	"kerf.dev/kerf/inventory"
)

// Functions of Kubernetes' CEL library that parse a quantity out of a text. Neither the
// cost limit nor a context ends them: quantity("1e-999999999") is computed for minutes.
const toQuantity, isQuantity = "quantity", "isQuantity"

// boundQuantities has a compiled expression parse no quantity that inventory refuses, be
// it written in the expression or taken from a device.
func boundQuantities(compiled *cel.CompilationResult) error {
	if compiled.Error != nil || !strings.Contains(strings.ToLower(compiled.Expression), toQuantity) {
		return nil
	}
	ast, issues := compiled.Environment.Compile(compiled.Expression)
	if issues.Err() != nil {
		return issues.Err()
	}
	program, err := compiled.Environment.Program(ast, celgo.CustomDecoratorV2(boundQuantity),
		// As package cel of dynamic-resource-allocation has them.
		celgo.CostLimit(resourceapi.CELSelectorExpressionMaxCost), celgo.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return err
	}
	compiled.Program = program
	return nil
}

func boundQuantity(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != toQuantity && call.Function() != isQuantity || len(call.Args()) != 1 {
		return i, nil
	}
	return &parseQuantity{InterpretableCall: call, arg: call.Args()[0]}, nil
}

// parseQuantity stands for a call of one of the functions.
type parseQuantity struct {
	interpreter.InterpretableCall
	arg interpreter.InterpretableV2
}

func (p *parseQuantity) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return p.of(p.arg.Exec(frame))
}

func (p *parseQuantity) Eval(vars interpreter.Activation) ref.Val { return p.of(p.arg.Eval(vars)) }

func (p *parseQuantity) of(arg ref.Val) ref.Val {
	if types.IsUnknownOrError(arg) {
		return arg
	}
	text, ok := arg.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(arg)
	}
	q, err := inventory.ParseQuantity(text)
	switch {
	case p.Function() == isQuantity:
		return types.Bool(err == nil)
	case err != nil:
		return types.WrapErr(fmt.Errorf("quantity: %w", err))
	}
	return apiservercel.Quantity{Quantity: &q}
}
