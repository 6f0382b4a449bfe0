package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/fts"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

const textPlugin = "text"

// TextMatch keeps of the documents in which a text index knows terms of a
// search those that match all of it: phrases, and what must not be there.
type TextMatch struct {
	Input  Node
	Index  *Index
	Prefix bson.Doc // the values of the fields in front of the terms
	Query  *fts.Query
}

// TextOr reads the entries of each term and delivers each document once, with
// the sum of its weights.
type TextOr struct {
	Terms  []Node
	Index  *Index
	Filter match.Node // nil: every document
}

// Stage is TEXT_MATCH.
func (*TextMatch) Stage() string { return "TEXT_MATCH" }

// Stage is TEXT_OR.
func (*TextOr) Stage() string { return "TEXT_OR" }

// Inputs is what finds the terms.
func (n *TextMatch) Inputs() []Node { return []Node{n.Input} }

// Inputs are the scans, one for a term.
func (n *TextOr) Inputs() []Node { return n.Terms }

// ErrNoTextIndex is the error of a $text where there is no text index.
var ErrNoTextIndex = mongoerr.New(mongoerr.IndexNotFound, "text index required for $text query")

// textOf finds the $text among the conjuncts, or -1.
func textOf(cs []match.Node) int {
	return slices.IndexFunc(cs, func(n match.Node) bool {
		_, ok := n.(*match.Text)
		return ok
	})
}

// checkText refuses what does not go together with a $text: error 2, and 27
// where there is no text index. It tells the $text how the index understands
// it.
func checkText(c *Collection, q *Query) error {
	t := match.TextIn(q.Filter.Root())
	if t == nil {
		return nil
	}
	switch {
	case match.SeveralTexts(q.Filter.Root()):
		return mongoerr.New(17313, "$match with $text is only allowed as the first pipeline stage")
	case q.Sort.Natural() != 0:
		return mongoerr.New(mongoerr.BadValue, "text expression not allowed with $natural sort order")
	case !q.Hint.IsMissing() && !(q.Hint.Type == bson.TypeDocument && q.Hint.Doc().IsEmpty()):
		return mongoerr.New(mongoerr.BadValue, "text and hint not allowed in same query")
	}
	ix := textIndexOf(c)
	if ix == nil {
		return ErrNoTextIndex
	}
	return t.Bind(ix.Text)
}

// textIndexOf is the text index of a collection, which has one at most. It may
// be hidden.
func textIndexOf(c *Collection) *Index {
	for _, ix := range c.Indexes {
		if ix.Plugin == textPlugin {
			return ix
		}
	}
	return nil
}

func errNoTextPlan(c *Collection, q *Query) error {
	why := "failed to use text index to satisfy $text query (if text index is compound, are equality predicates given for all prefix fields?)"
	if or, ok := q.Filter.Root().(*match.Or); ok && slices.ContainsFunc(or.Children, isText) {
		why = "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be indexed as well."
	}
	return mongoerr.New(mongoerr.NoQueryExecutionPlans, "error processing query: ns=%s planner returned error :: caused by :: %s", c.Namespace, why)
}

func isText(n match.Node) bool {
	_, ok := n.(*match.Text)
	return ok
}

// textSource is the source for the $text at at among the conjuncts of root:
// error 291 where a field in front of the terms is not given.
func textSource(c *Collection, q *Query, root match.Node, cs []match.Node, at int) (source, error) {
	ix := textIndexOf(c)
	if ix == nil {
		return source{}, ErrNoTextIndex
	}
	if ix.Hidden || ix.Partial != nil && !implies(root, ix.Partial) {
		return source{}, errNoTextPlan(c, q)
	}
	text := cs[at].(*match.Text)
	rest := slices.Delete(slices.Clone(cs), at, at+1)
	var bounds []Intervals
	term := 0
	prefix := new(bson.Builder)
	for i, p := range ix.Parts {
		if p.Path == schema.TextTerm {
			term = i
			break
		}
		v, ok := equalTo(rest, p.Path)
		if !ok {
			return source{}, errNoTextPlan(c, q)
		}
		prefix.Value(p.Path, v)
		bounds = append(bounds, Intervals{Point(v)})
	}
	n := &TextOr{Index: ix, Filter: join(rest)}
	query := text.Bound()
	for _, t := range query.Terms {
		b := append(slices.Clip(bounds), Intervals{Point(bson.String(schema.TermKey(t)))})
		for range ix.Parts[term+1:] {
			b = append(b, All)
		}
		n.Terms = append(n.Terms, &IndexScan{Index: ix, Bounds: b})
	}
	return source{ix: ix, node: &TextMatch{n, ix, prefix.Finish(), query}, sorted: q.Sort.IsEmpty(), bound: 1}, nil
}

// equalTo is the value that a path must have.
func equalTo(cs []match.Node, path string) (bson.Value, bool) {
	for _, c := range cs {
		if e, ok := c.(*match.Compare); ok && e.Op == match.Eq && e.FieldPath() == path && e.Value.Type != bson.TypeArray {
			return e.Value, true
		}
	}
	return bson.Value{}, false
}

func describeText(b *bson.Builder, n *TextMatch) {
	b.Doc("indexPrefix", n.Prefix).String("indexName", n.Index.Name)
	b.OpenDoc("parsedTextQuery")
	var negated []string
	for t := range n.Query.Negative {
		negated = append(negated, t)
	}
	for _, l := range []struct {
		name  string
		words []string
	}{
		{"terms", n.Query.Terms}, {"negatedTerms", negated}, {"phrases", n.Query.Phrases}, {"negatedPhrases", n.Query.NegatedPhrases},
	} {
		b.OpenArray(l.name)
		for i, w := range slices.Sorted(slices.Values(l.words)) {
			b.String(bson.Index(i), w)
		}
		b.Close()
	}
	b.Close().Int32("textIndexVersion", int32(n.Index.Text.Version))
}
