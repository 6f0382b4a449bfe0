package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Planning a large filter ends with the operation.
func TestPlanningEnds(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(mongoerr.New(mongoerr.MaxTimeMSExpired, "over"))
	for _, item := range []string{
		`$or: {"_id": %d, "b": 1}`, `$or: {"_id": %d}`, `$and: {"_id": {"$ne": %d}}`, `$and: {"$or": [{"_id": %d}, {"a": 1}]}`,
	} {
		op, item, _ := strings.Cut(item, ": ")
		var text strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&text, item+", ", i)
		}
		f, err := match.Parse(bson.MustParse(`{"`+op+`": [`+text.String()+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []mongoerr.Code{0, mongoerr.MaxTimeMSExpired} {
			env := expr.NewEnv(0)
			if want != 0 {
				env.Watch(over)
			}
			c := &Collection{Namespace: "test.c", Indexes: []*Index{{Index: schema.IDIndex(nil)}}}
			nodes, err := Candidates(c, &Query{Filter: f, Env: env})
			if want == 0 && (err != nil || len(nodes) == 0) || want != 0 && !mongoerr.Is(err, want) {
				t.Errorf("%s %s: %d plans, %v", op, item, len(nodes), err)
			}
		}
	}
}
