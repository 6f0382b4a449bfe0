package match

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCompat holds the list of operators in docs/compat to the registry.
func TestCompat(t *testing.T) {
	datadriven.RunTest(t, "../../../docs/compat/query-operators.txt", func(_ *testing.T, d *datadriven.TestData) string {
		names := slices.Sorted(maps.Keys(operators))
		if d.Cmd == "documents" {
			names = slices.Sorted(maps.Keys(topLevel))
		}
		return strings.Join(names, "\n") + "\n"
	})
}
