package expr

import (
	"maps"
	"slices"
)

// Operators are the names of all expressions, in their order.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

// Accumulators are the names of all accumulators of $group.
func Accumulators() []string { return slices.Sorted(maps.Keys(accumulators)) }

// WindowFunctions are the names of all functions of $setWindowFields.
func WindowFunctions() []string { return slices.Sorted(maps.Keys(windowFunctions)) }
