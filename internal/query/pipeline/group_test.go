package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// TestGroup runs testdata/group: the first line of a case is a pipeline, the
// others are the documents it runs over.
func TestGroup(t *testing.T) {
	datadriven.Walk(t, "testdata/group", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			stages, rest, _ := strings.Cut(c.Input, "\n")
			var docs []bson.Doc
			for line := range strings.SplitSeq(rest, "\n") {
				if line != "" {
					docs = append(docs, bson.MustParse(line))
				}
			}
			var b strings.Builder
			if err := runAll(stages, docs, &b); err != nil {
				e := mongoerr.From(err)
				fmt.Fprintf(&b, "%d: %s\n", e.Code, e.Message)
			}
			return b.String()
		})
	})
}

func runAll(stages string, docs []bson.Doc, out *strings.Builder) error {
	var list []bson.Value
	for v := range bson.MustParseValue(stages).Doc().Values() {
		list = append(list, v)
	}
	p, err := Parse(list, &Options{Expr: &expr.Options{}})
	if err != nil {
		return err
	}
	it, err := p.Open(&List{Docs: docs}, &Run{Env: expr.NewEnv(1)})
	if err != nil {
		return err
	}
	defer it.Close()
	for {
		d, err := it.Next(context.Background())
		if err != nil || d == nil {
			return err
		}
		fmt.Fprintln(out, d)
	}
}
