package match

import (
	"maps"
	"slices"
)

// Operators are the names of all query operators, in their order: those that
// stand beside fields and those that stand within them.
func Operators() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(topLevel)), maps.Keys(operators))
	slices.Sort(names)
	return slices.Compact(names)
}
