package update

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCompat holds the list of operators in docs/compat to the registry.
func TestCompat(t *testing.T) {
	datadriven.RunTest(t, "../../../docs/compat/update-operators.txt", func(_ *testing.T, d *datadriven.TestData) string {
		names := slices.Sorted(maps.Keys(modifierNames))
		if d.Cmd == "stages" {
			names = []string{"$fill, by values"}
			for _, name := range []string{"$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"} {
				if checkStage(name) == nil {
					names = append(names, name)
				}
			}
		}
		return strings.Join(names, "\n") + "\n"
	})
}
