package exec

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Making the stages of a large plan ends with the operation.
func TestBuildingEnds(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(mongoerr.New(mongoerr.MaxTimeMSExpired, "over"))
	var or plan.Or
	for range 5000 {
		or.Nodes = append(or.Nodes, &plan.EOF{})
	}
	r := &running{query: &Query{Query: plan.Query{Env: expr.NewEnv(0)}}}
	r.builder.source = &r.source
	if _, err := r.built(&or); err != nil {
		t.Fatal(err)
	}
	r.query.Env.Watch(over)
	if _, err := r.built(&or); !mongoerr.Is(err, mongoerr.MaxTimeMSExpired) {
		t.Errorf("%v", err)
	}
}
