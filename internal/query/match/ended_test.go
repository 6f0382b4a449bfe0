package match

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// over is an operation that is to end.
type over struct{}

func (over) Ended() error { return mongoerr.New(mongoerr.MaxTimeMSExpired, "over") }

// Parsing a large filter ends with its operation.
func TestParsingEnds(t *testing.T) {
	for _, shape := range []string{
		`{$or: [{"f%[1]d": 1},]}`, `{$and: [{a: {$ne: %[1]d}},]}`, `{$nor: [{a: %[1]d},]}`, `{a: {$in: [%[1]d,]}}`, `{a: {$nin: [-%[1]d,]}}`,
		`{$expr: {$or: [{$eq: ["$a", %[1]d]},]}}`, `{$expr: {$in: ["$a", [%[1]d,]]}}`, `{a: {$all: [%[1]d,]}}`, `{$jsonSchema: {anyOf: [{required: ["f%[1]d"]},]}}`,
		`{$or: [{a: {$elemMatch: {$gt: %[1]d}}},]}`, `{$and: [{$or: [{a: %[1]d}, {b: 1}]},]}`, `{$or: [{a: {$not: {$gt: %[1]d}}},]}`,
	} {
		begin, rest, _ := strings.Cut(shape, "[")
		item, end, _ := strings.Cut(rest, ",]")
		if strings.HasPrefix(item, `"$a", [`) {
			begin, item = begin+`["$a", `, strings.TrimPrefix(item, `"$a", [`)
		}
		var text strings.Builder
		text.WriteString(begin + "[")
		for i := range 3000 {
			fmt.Fprintf(&text, item+", ", i)
		}
		text.WriteString("]" + end)
		filter := bson.MustParse(text.String())
		if _, err := Parse(filter, nil); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
		if _, err := Parse(filter, &Options{Expr: &expr.Options{Op: over{}}}); !mongoerr.Is(err, mongoerr.MaxTimeMSExpired) {
			t.Errorf("%s: %v", shape, err)
		}
	}
}
