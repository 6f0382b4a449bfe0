package expr

import (
	"maps"
	"slices"
)

// Operators returns the names of all expression operators, sorted.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

// Accumulators returns the names of all accumulators of $group, sorted.
func Accumulators() []string { return slices.Sorted(maps.Keys(accumulators)) }

// WindowFunctions returns the names of all functions of $setWindowFields, sorted.
func WindowFunctions() []string { return slices.Sorted(maps.Keys(windowFunctions)) }
