package shard

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

func mustQuery(filter bson.Doc, collation bson.Value) *plan.Query {
	q := &plan.Query{}
	if collation.Type == bson.TypeDocument {
		c, err := schema.ParseCollation(collation.Doc())
		if err != nil {
			panic(err)
		}
		if c != nil {
			q.Collation, q.Collator = c.Spec, c.Collator
		}
	}
	f, err := match.Parse(filter, &match.Options{Collator: q.Collator})
	if err != nil {
		panic(err)
	}
	q.Filter = f
	return q
}

// target: a filter a line, or {filter, collation}.
func (s *script) target(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		filter, collation := bson.MustParse(line), bson.Value{}
		if v := filter.Lookup("collation"); !v.IsMissing() {
			filter, collation = filter.Lookup("filter").Doc(), v
		}
		t := s.chunks.Target(mustQuery(filter, collation))
		fmt.Fprintf(&out, "%s %v: %s\n", line, t.Shards, t.Reason)
	}
	return out.String()
}

// write: {q, multi, upsert, returns} a line.
func (s *script) write(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		w := Write{Query: mustQuery(doc.Lookup("q").Doc(), doc.Lookup("collation")), Multi: doc.Has("multi"), Upsert: doc.Has("upsert"), Returns: doc.Has("returns")}
		t, mode, err := s.chunks.TargetWrite(&w)
		if err != nil {
			fmt.Fprintf(&out, "%s %s", line, errText(err))
			continue
		}
		fmt.Fprintf(&out, "%s %v: %s, %s\n", line, t.Shards, t.Reason, mode)
	}
	return out.String()
}

// insert: a document a line.
func (s *script) insert(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		shard, err := s.chunks.TargetInsert(bson.MustParse(line))
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		fmt.Fprintln(&out, shard)
	}
	return out.String()
}

// change: {before, after, multi, retryable} a line.
func (s *script) change(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		moved, err := s.key.KeyChange(doc.Lookup("before").Doc(), doc.Lookup("after").Doc(), doc.Has("multi"), doc.Has("retryable"))
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		fmt.Fprintf(&out, "moved %v\n", moved)
	}
	return out.String()
}
