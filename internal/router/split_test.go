package router

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/shard"
)

// TestSplit runs testdata/split: how pipelines are divided, and which collections they
// name.
func TestSplit(t *testing.T) {
	datadriven.RunTest(t, "testdata/split", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			v, err := bson.ParseJSON(`{"p":` + line + `}`)
			if err != nil {
				t.Fatal(err)
			}
			list := v.Lookup("p").Doc().Slice()
			reads, writes := named("d", list)
			p := split(list)
			write := func(what string, list []bson.Value) {
				out.WriteString(what)
				for _, s := range list {
					out.WriteString(" " + s.String())
				}
				out.WriteString("\n")
			}
			write("shards:", p.shards)
			write("router:", p.merge)
			if p.sort != nil {
				out.WriteString("sorted by " + p.sort.String() + "\n")
			}
			if len(reads) > 0 {
				out.WriteString("reads " + strings.Join(reads, ", ") + "\n")
			}
			if writes != "" {
				out.WriteString("writes " + writes + "\n")
			}
		}
		return out.String()
	})
}

// TestWithin: a filter that is bounded to ranges of a shard key lets through exactly the
// documents that lie in them, hashed or not.
func TestWithin(t *testing.T) {
	for _, pattern := range []string{`{"x":1}`, `{"x":"hashed"}`, `{"y":1,"x":"hashed"}`, `{"x":1,"y":1}`} {
		key, err := shard.ParseKey(bson.MustParse(pattern))
		if err != nil {
			t.Fatal(err)
		}
		var docs []bson.Doc
		for _, x := range []string{`1`, `2.5`, `"a"`, `null`, `{"z":1}`, `true`, `{"$numberLong":"7"}`, `{"$minKey":1}`} {
			docs = append(docs, mustJSON(t, `{"x":`+x+`,"y":1}`), mustJSON(t, `{"x":`+x+`}`))
		}
		docs = append(docs, mustJSON(t, `{"y":3}`), mustJSON(t, `{}`))
		for _, from := range docs {
			lo, err := key.BoundOf(from)
			if err != nil {
				t.Fatal(err)
			}
			r := shard.Range{Min: lo, Max: key.Max()}
			s := newTestScope(t)
			q, err := s.query(within(key, key.Pattern(), bson.Empty, []shard.Range{r}))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range docs {
				at, err := key.BoundOf(d)
				if err != nil {
					t.Fatal(err)
				}
				is := at.Compare(r.Min) >= 0 && at.Compare(r.Max) < 0
				if got, err := q.Filter.Match(d); err != nil || got != is {
					t.Errorf("%s: %s in %s: %v, %v; the filter is %s", pattern, d, key.RangeText(r), got, err, within(key, key.Pattern(), bson.Empty, []shard.Range{r}))
				}
			}
		}
	}
}
