package expr

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestHasFirst holds that a $first which has its value is known to need no more
// columns, and that others are not.
func TestHasFirst(t *testing.T) {
	for name, want := range map[string]bool{"$first": true, "$last": false, "$sum": false, "$max": false} {
		s, err := ParseAccumulator(name, bson.String("$x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		env := NewEnv(0)
		a, err := s.New(env, bson.Null)
		if err != nil {
			t.Fatal(err)
		}
		if HasFirst(a) {
			t.Errorf("%s has all before it has any", name)
		}
		if err := a.(ColumnAccumulator).AddColumn(env, &Constants{Value: bson.Int32(1), N: 2}); err != nil {
			t.Fatal(err)
		}
		if HasFirst(a) != want {
			t.Errorf("%s has all: %v", name, !want)
		}
	}
}
