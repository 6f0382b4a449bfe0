package expr

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCompat holds the lists in docs/compat to the registries.
func TestCompat(t *testing.T) {
	datadriven.RunTest(t, "../../../docs/compat/expressions.txt", func(_ *testing.T, d *datadriven.TestData) string {
		var names []string
		switch d.Cmd {
		case "expressions":
			names = slices.Sorted(maps.Keys(operators))
		case "accumulators":
			names = slices.Sorted(maps.Keys(accumulators))
		case "windows":
			names = slices.Sorted(maps.Keys(windowFunctions))
		case "variables":
			names = slices.Sorted(maps.Keys(systemVars))
		}
		return strings.Join(names, "\n") + "\n"
	})
}
