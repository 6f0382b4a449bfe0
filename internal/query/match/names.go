package match

import (
	"maps"
	"slices"
)

// Operators returns the names of all query operators, sorted: those that stand alone
// and those that apply to a field.
func Operators() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(topLevel)), maps.Keys(operators))
	slices.Sort(names)
	return slices.Compact(names)
}
