package plan

import (
	"fmt"
	"math"
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

// TestCorpus plans many queries, one a line, over the collections of a script:
//
//	collection {collation, clustered, noID, exempt, timeseries}
//	           with the indexes of the lines below it; multikey=(a,b.c) names
//	           the paths with arrays at their ends, a.b@0 one with an array at
//	           its first field
//	queries    {filter, sort, projection, skip, limit, hint, min, max, collation,
//	           allowed, and flags}: below each query its plans, the best guess
//	           first, and what else was to say. The flags are noScan, hides,
//	           returnKey, tailable, noExpress, grouping, textScore; distinct is a
//	           path. count and presence ask for what those make of the best plan,
//	           ends (newest or oldest) for one measurement of each group.
//	explain    the same, but the best plan as explain prints it, with the shape
//	           of the query and the signature of the plan
func TestCorpus(t *testing.T) {
	datadriven.Walk(t, "testdata/corpus", func(t *testing.T, path string) {
		w := &world{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "collection":
				return w.define(t, d)
			case "queries", "explain":
				var b strings.Builder
				for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
					in := bson.MustParse(line)
					fmt.Fprintf(&b, "# %s\n%s", strings.TrimSpace(line), printable(w.ask(in, d.Cmd == "explain")))
				}
				return b.String()
			}
			t.Fatalf("%s: no such command", d.Cmd)
			return ""
		})
	})
}

// world is the collection of a script.
type world struct {
	c      *Collection
	series *schema.Timeseries
}

func (w *world) define(t *testing.T, d *datadriven.TestData) string {
	options, specs, _ := strings.Cut(strings.TrimSpace(d.Input), "\n")
	in := bson.MustParse(options)
	w.c, w.series = &Collection{Namespace: "d.c", Exempt: in.Lookup("exempt").Truthy()}, nil
	if v := in.Lookup("collation"); v.Type == bson.TypeDocument {
		parsed, err := schema.ParseCollation(v.Doc())
		if err != nil {
			t.Fatal(err)
		}
		w.c.Collation = parsed.Spec
	}
	if v := in.Lookup("timeseries"); v.Type == bson.TypeDocument {
		o, err := schema.OutTimeseries(v.Doc())
		if err != nil {
			t.Fatal(err)
		}
		w.series = o.Timeseries
		order, err := w.series.BucketOrder()
		if err != nil {
			t.Fatal(err)
		}
		w.c.NoIDIndex = true
		w.c.Indexes = append(w.c.Indexes, &Index{Index: order, Clustered: true})
	} else if w.c.NoIDIndex = in.Lookup("noID").Truthy(); !w.c.NoIDIndex {
		w.c.Indexes = append(w.c.Indexes, &Index{Index: schema.IDIndex(nil), Clustered: in.Lookup("clustered").Truthy()})
	}
	for _, line := range strings.Split(strings.TrimSpace(specs), "\n") {
		if line == "" {
			continue
		}
		w.index(t, bson.MustParse(line), d)
	}
	return ""
}

func (w *world) index(t *testing.T, in bson.Doc, d *datadriven.TestData) {
	spec, err := schema.ParseIndexSpec(schema.Namespace{DB: "d", Coll: "c"}, in, false)
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	ix, err := schema.LoadIndex(spec)
	if err == nil && w.series != nil {
		ix, err = w.series.BucketForm(ix)
	}
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	p := &Index{Index: ix, Multikey: make(schema.MultikeyPaths, len(ix.Parts))}
	for i, part := range ix.Parts {
		for _, arg := range d.CmdArgs {
			for _, v := range arg.Vals {
				path, at, _ := strings.Cut(v, "@")
				if path != part.Path {
					continue
				}
				component := len(part.Components) - 1
				if at != "" {
					component = int(at[0] - '0')
				}
				p.Multikey[i] |= 1 << component
			}
		}
	}
	if ix.WildcardPart() >= 0 { // its multikey paths are hashes
		for _, arg := range d.CmdArgs {
			for _, v := range arg.Vals {
				_, arrays, err := ix.Keys(new(bson.Builder).OpenArray(v).Int32("0", 1).Close().Finish(), nil)
				if err != nil {
					t.Fatal(err)
				}
				p.Multikey = arrays
			}
		}
	}
	if ix.Filter != nil {
		p.Partial = ix.Filter.Root()
	}
	w.c.Indexes = append(w.c.Indexes, p)
}

// query reads a query as the executor makes it of a find.
func (w *world) query(in bson.Doc) (*Query, error) {
	flag := func(name string) bool { return in.Lookup(name).Truthy() }
	doc := func(name string) bson.Doc {
		if v := in.Lookup(name); v.Type == bson.TypeDocument {
			return v.Doc()
		}
		return nil
	}
	q := &Query{
		Hint: in.Lookup("hint"), Skip: bson.ClampToInt64(in.Lookup("skip")), Limit: bson.ClampToInt64(in.Lookup("limit")), Env: expr.NewEnv(0),
		NoScan: flag("noScan"), Hides: flag("hides"), ReturnKey: flag("returnKey"), Tailable: flag("tailable"), NoExpress: flag("noExpress"),
		Grouping: flag("grouping"), TextScore: flag("textScore"), Min: doc("min"), Max: doc("max"),
	}
	if v := in.Lookup("distinct"); v.Type == bson.TypeString {
		q.Distinct = v.Str()
	}
	if v := in.Lookup("allowed"); v.Type == bson.TypeString {
		q.Allowed = func(ix *schema.Index) bool { return ix.Name == v.Str() }
	}
	if v := in.Lookup("ends"); v.Type == bson.TypeString {
		q.Ends = &Ends{Newest: v.Str() == "newest"}
	}
	spec := doc("collation")
	if spec == nil && w.c.Collation != nil {
		spec = w.c.Collation
	}
	if spec != nil {
		parsed, err := schema.ParseCollation(spec)
		if err != nil {
			return nil, err
		}
		if parsed != nil { // not the simple one
			q.Collation, q.Collator = parsed.Spec, parsed.Collator
		}
	}
	var err error
	if q.Filter, err = match.Parse(append(bson.Doc(nil), doc("filter")...), &match.Options{Collator: q.Collator}); err != nil {
		return nil, err
	}
	if spec := doc("sort"); spec != nil {
		if q.Sort, err = sortkey.Parse(spec); err != nil {
			return nil, err
		}
	}
	if spec := doc("projection"); spec != nil {
		if q.Projection, err = project.ParseFind(spec, nil); err != nil {
			return nil, err
		}
		if paths, whole := q.Projection.Fields(); !whole {
			q.Paths = paths
		}
	}
	if flag("count") || flag("presence") {
		q.Paths, q.NoExpress = []string{}, true
	}
	return q, nil
}

func (w *world) ask(in bson.Doc, explained bool) string {
	q, err := w.query(in)
	if err != nil {
		return err.Error() + "\n"
	}
	nodes, err := w.plan(q)
	if err != nil {
		return err.Error() + "\n"
	}
	switch {
	case in.Lookup("count").Truthy():
		nodes = []Node{ForCount(nodes[0], q.Skip, q.Limit)}
	case in.Lookup("presence").Truthy():
		nodes = []Node{ForPresence(nodes[0])}
	}
	if explained {
		s := ShapeOf(q)
		return fmt.Sprintf("%s\nshape %q %s\nsignature %s\n", Explain(nodes[0], nil, MaxExplain), string(s), s.Hash(), Signature(nodes[0]))
	}
	var b strings.Builder
	for i, n := range nodes {
		if i > 0 {
			b.WriteString("or\n")
		}
		outlineAll(&b, n, "")
	}
	if r := q.Reached; r != (Limits{}) {
		fmt.Fprintf(&b, "limits reached: %+v\n", r)
	}
	return b.String()
}

func (w *world) plan(q *Query) ([]Node, error) {
	if w.series == nil {
		return Candidates(w.c, q)
	}
	n, err := Measurements(w.c, q, w.series)
	return []Node{n}, err
}

// outlineAll is outline with what the stages of this corpus have more.
func outlineAll(b *strings.Builder, n Node, indent string) {
	var line strings.Builder
	outline(&line, n, indent)
	first, _, _ := strings.Cut(line.String(), "\n")
	b.WriteString(first)
	switch n := n.(type) {
	case *CollScan:
		if d := Explain(n, nil, MaxExplain); !d.Lookup("minRecord").IsMissing() || !d.Lookup("maxRecord").IsMissing() {
			fmt.Fprintf(b, " from %v to %v", d.Lookup("minRecord"), d.Lookup("maxRecord"))
		}
	case *Express, *IDHack, *DistinctScan, *CountScan, *Projection, *GeoNear, *TextMatch:
		fmt.Fprintf(b, " %s", describeAlone(n))
	case *Unpack:
		if n.From != math.MinInt64 || n.To != math.MaxInt64 {
			fmt.Fprintf(b, " times %d to %d", n.From, n.To)
		}
		fmt.Fprintf(b, " order %d", n.Order)
	}
	b.WriteByte('\n')
	for _, in := range n.Inputs() {
		outlineAll(b, in, indent+"  ")
	}
}

// describeAlone is what explain says of a stage, but for those below it.
func describeAlone(n Node) bson.Doc {
	var b bson.Builder
	describe(&b, n, MaxExplain)
	return b.Finish()
}

// printable has the bytes of collation keys as \x.., so that scripts are text.
func printable(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			fmt.Fprintf(&b, "\\x%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
