package plan

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Planning the branches of a large $or ends with the operation.
func TestPlanningEnds(t *testing.T) {
	var b bson.Builder
	b.OpenArray("$or")
	for i := range 5000 {
		b.OpenDoc(bson.Index(i)).Int32("_id", int32(i)).Int32("b", int32(i)).Close()
	}
	f, err := match.Parse(b.Close().Finish(), nil)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for _, want := range []mongoerr.Code{0, mongoerr.MaxTimeMSExpired} {
		if want != 0 {
			cancel(mongoerr.New(want, "over"))
		}
		env := expr.NewEnv(0)
		env.Watch(over)
		c := &Collection{Namespace: "test.c", Indexes: []*Index{{Index: schema.IDIndex(nil)}}}
		nodes, err := Candidates(c, &Query{Filter: f, Env: env})
		if want == 0 && (err != nil || len(nodes) == 0) || want != 0 && !mongoerr.Is(err, want) {
			t.Errorf("%d plans, %v", len(nodes), err)
		}
	}
}
