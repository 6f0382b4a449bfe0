package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestScripts plans queries over indexes:
//
//	indexes                 one specification a line; multikey=(a,b.c) names the
//	                        paths with arrays at their ends
//	plan                    {filter, sort, projection, skip, limit, hint, min,
//	                        max, collation, distinct}: the candidates, the best
//	                        guess first, and the limits that were reached
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		c := &Collection{Namespace: "d.c"}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "indexes":
				return c.define(t, d)
			case "plan":
				return c.planOf(t, bson.MustParse(d.Input))
			}
			t.Fatalf("%s: no such command", d.Cmd)
			return ""
		})
	})
}

func (c *Collection) define(t *testing.T, d *datadriven.TestData) string {
	arrays := map[string]bool{}
	for _, arg := range d.CmdArgs {
		if arg.Key == "multikey" {
			for _, v := range arg.Vals {
				arrays[v] = true
			}
		}
	}
	c.Indexes = nil
	for _, line := range append([]string{`{key: {_id: 1}, name: "_id_"}`}, strings.Split(strings.TrimSpace(d.Input), "\n")...) {
		spec, err := schema.ParseIndexSpec(schema.Namespace{DB: "d", Coll: "c"}, bson.MustParse(line), false)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		ix, err := schema.LoadIndex(spec)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		p := &Index{Index: ix, Multikey: make(schema.MultikeyPaths, len(ix.Parts))}
		for i, part := range ix.Parts {
			if arrays[part.Path] {
				p.Multikey[i] = 1 << (len(part.Components) - 1)
			}
		}
		if ix.Filter != nil {
			p.Partial = ix.Filter.Root()
		}
		c.Indexes = append(c.Indexes, p)
	}
	return ""
}

func (c *Collection) planOf(t *testing.T, in bson.Doc) string {
	q := &Query{
		Hint: in.Lookup("hint"), Skip: bson.ClampToInt64(in.Lookup("skip")), Limit: bson.ClampToInt64(in.Lookup("limit")),
		Env: expr.NewEnv(0),
	}
	doc := func(name string) bson.Doc {
		if v := in.Lookup(name); v.Type == bson.TypeDocument {
			return v.Doc()
		}
		return nil
	}
	if spec := doc("collation"); spec != nil {
		parsed, err := schema.ParseCollation(spec)
		if err != nil {
			t.Fatal(err)
		}
		q.Collation, q.Collator = parsed.Spec, parsed.Collator
	}
	var err error
	if q.Filter, err = match.Parse(append(bson.Doc(nil), doc("filter")...), &match.Options{Collator: q.Collator}); err != nil {
		t.Fatal(err)
	}
	if spec := doc("sort"); spec != nil {
		if q.Sort, err = sortkey.Parse(spec); err != nil {
			t.Fatal(err)
		}
	}
	if spec := doc("projection"); spec != nil {
		if q.Projection, err = project.ParseFind(spec, nil); err != nil {
			t.Fatal(err)
		}
		if paths, whole := q.Projection.Fields(); !whole {
			q.Paths = paths
		}
	}
	q.Min, q.Max = doc("min"), doc("max")
	nodes, err := Candidates(c, q)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for i, n := range nodes {
		if i > 0 {
			b.WriteString("or\n")
		}
		outline(&b, n, "")
	}
	if r := q.Reached; r != (Limits{}) {
		fmt.Fprintf(&b, "limits reached: %+v\n", r)
	}
	return b.String()
}

// outline prints a plan as a tree of stages with what is particular to each.
func outline(b *strings.Builder, n Node, indent string) {
	b.WriteString(indent + n.Stage())
	if f := filterOf(n); f != nil {
		fmt.Fprintf(b, " filter %s", match.Serialize(f))
	}
	switch n := n.(type) {
	case *IndexScan:
		fmt.Fprintf(b, " %s", n.Index.Title())
		if n.Backward {
			b.WriteString(" backward")
		}
		for i, l := range n.Bounds {
			var all []string
			for _, iv := range l {
				all = append(all, iv.format(false, n.Index.Collation != nil))
			}
			fmt.Fprintf(b, " %s: {%s}", n.Index.Parts[i].Path, strings.Join(all, ", "))
		}
		if n.Min != nil || n.Max != nil {
			fmt.Fprintf(b, " from %v to %v", n.Min, n.Max)
		}
	case *CollScan:
		if n.Backward {
			b.WriteString(" backward")
		}
	case *Sort:
		fmt.Fprintf(b, " %s limit %d", n.Pattern.Spec(), n.Limit)
	case *SortMerge:
		fmt.Fprintf(b, " %s", n.Pattern.Spec())
	case *Skip:
		fmt.Fprintf(b, " %d", n.N)
	case *Limit:
		fmt.Fprintf(b, " %d", n.N)
	}
	b.WriteByte('\n')
	for _, in := range n.Inputs() {
		outline(b, in, indent+"  ")
	}
}

// TestErrorOfLargeQuery holds that the text of an error does not grow beyond what is
// worth to read, however large the filter is that it tells.
func TestErrorOfLargeQuery(t *testing.T) {
	leaves := make([]string, 50_000)
	for i := range leaves {
		leaves[i] = `{"a": 1}`
	}
	deep := `{"$or": [` + strings.Join(leaves, ",") + `]}`
	for range 50 {
		deep = `{"$and": [{"b": 1}, ` + deep + `]}`
	}
	for _, filter := range []string{deep, `{"a": "` + strings.Repeat("ä", 1<<20) + `"}`} {
		q := &Query{}
		var err error
		if q.Filter, err = match.Parse(bson.MustParse(filter), nil); err != nil {
			t.Fatal(err)
		}
		q.Hint = bson.String("none")
		_, err = Candidates(&Collection{Namespace: "d.c"}, q)
		if err == nil || len(err.Error()) > 3*maxTreeText {
			t.Errorf("%d bytes", len(err.Error()))
		}
	}
}
