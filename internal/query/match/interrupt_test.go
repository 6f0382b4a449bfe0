package match

import (
	"context"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// A filter that takes long for one document ends with its operation.
func TestLongMatchesEnd(t *testing.T) {
	var doc bson.Builder
	doc.OpenArray("a")
	for i := range 5000 {
		doc.Int32(bson.Index(i), int32(i))
	}
	whole := doc.Close().String("s", strings.Repeat("a", 1<<20)).Finish()
	over, cancel := context.WithCancelCause(t.Context())
	cancel(mongoerr.New(mongoerr.MaxTimeMSExpired, "over"))
	env := &Env{Expr: expr.NewEnv(0)}
	env.Expr.Watch(over)
	for _, filter := range []string{
		`{a: -1}`,
		`{a: {$elemMatch: {$lt: 0}}}`,
		`{s: {$regex: "(?=a)a*[bc]"}}`,
		`{$jsonSchema: {properties: {a: {items: {minimum: 0}}}}}`,
		`{$jsonSchema: {properties: {a: {items: {not: {anyOf: [{minimum: 9000}, {minimum: 8000}]}}}}}}`,
	} {
		f, err := Parse(bson.MustParse(filter), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.MatchEnv(whole, env); !mongoerr.Is(err, mongoerr.MaxTimeMSExpired) {
			t.Errorf("%s: %v", filter, err)
		}
	}
}
