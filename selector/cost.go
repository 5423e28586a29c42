// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// weighedPerCost is how many elements are weighed while a unit of CEL's cost lasts.
	weighedPerCost = 5
	// formatCost and zoneCost are for a text that is put together, and for the file of a
	// time zone, which is read whenever one is named.
	formatCost, zoneCost = 50, 50
)

// estimator charges what takes much longer than its cost in CEL says.
type estimator struct{ library.CostEstimator }

// CallCost implements interpreter.ActualCostEstimator.
func (e *estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost, extra := e.CostEstimator.CallCost(function, overload, args, result), uint64(0)
	switch {
	case isRegex(function) && len(args) > 1:
		cost = e.CostEstimator.CallCost("find", "", args, result) // the same for all three
		extra = regexCost(function, args)
	case function == "format" && len(args) > 1:
		extra = formatCost + uint64(length(args, 0))/10
	case namesZone(args):
		extra = zoneCost
	default:
		extra = weighingCost(result)
	}
	if extra == 0 {
		return cost
	}
	if cost == nil {
		cost = new(uint64(1)) // what CEL charges for all of these
	}
	*cost += extra
	return cost
}

// namesZone reports whether these are the arguments of what asks a time for a part of it
// in a time zone.
func namesZone(args []ref.Val) bool {
	if len(args) != 2 {
		return false
	}
	_, time := args[0].(types.Timestamp)
	_, zone := args[1].(types.String)
	return time && zone
}

// weighingCost is for looking at all of a list or map.
func weighingCost(result ref.Val) uint64 {
	switch result.(type) {
	case traits.Lister, traits.Mapper:
		return uint64(maxWeight-weigh(result, maxWeight)) / weighedPerCost
	}
	return 0
}
