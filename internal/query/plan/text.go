package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/fts"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

const textPlugin = "text"

// TextMatch filters the documents that a text index finds by the terms of a search: it
// keeps those that match the whole search, phrases and negated terms included.
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

// ErrNoTextIndex is the error of a $text if there is no text index.
var ErrNoTextIndex = mongoerr.New(mongoerr.IndexNotFound, "text index required for $text query")

// textOf finds the $text among the conjuncts, or -1.
func textOf(cs []match.Node) int {
	return slices.IndexFunc(cs, func(n match.Node) bool {
		_, ok := n.(*match.Text)
		return ok
	})
}

// checkText rejects what cannot be combined with a $text: error 2, and 27 if there is
// no text index. It binds the $text to the index.
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

// textIndexOf returns the text index of a collection, which has at most one. It may be
// hidden.
func textIndexOf(c *Collection) *Index {
	for _, ix := range c.Indexes {
		if ix.Plugin == textPlugin {
			return ix
		}
	}
	return nil
}

// errNoTextPlan is the error of a $text without a plan.
func errNoTextPlan(c *Collection, q *Query) error {
	if textAlone(c, q, q.Filter.Root()) {
		return errPlanning(c, q, mongoerr.NoQueryExecutionPlans, "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be indexed as well.")
	}
	return errTextIndex(c, q)
}

// errTextIndex is the error of a $text that the text index does not answer.
func errTextIndex(c *Collection, q *Query) error {
	return errPlanning(c, q, mongoerr.NoQueryExecutionPlans,
		"failed to use text index to satisfy $text query (if text index is compound, are equality predicates given for all prefix fields?)")
}

// textAlone reports whether the $text below an $or within n has a plan, so that the
// branch without a plan is another one.
func textAlone(c *Collection, q *Query, n match.Node) bool {
	for _, or := range conjuncts(n) {
		or, ok := or.(*match.Or)
		if !ok {
			continue
		}
		for _, branch := range or.Children {
			cs := conjuncts(branch)
			if at := textOf(cs); at >= 0 {
				_, err := textSource(c, q, branch, cs, at)
				return err == nil
			}
			if textAlone(c, q, branch) {
				return true
			}
		}
	}
	return false
}

// textSource returns the source for the $text at at among the conjuncts of root: error
// 291 if a field before the terms has no equality.
func textSource(c *Collection, q *Query, root match.Node, cs []match.Node, at int) (source, error) {
	ix := textIndexOf(c)
	if ix == nil {
		return source{}, ErrNoTextIndex
	}
	if ix.Hidden || !ix.hasAllOf(q, root) {
		return source{}, errTextIndex(c, q)
	}
	query := cs[at].(*match.Text).Bound()
	rest := slices.Delete(slices.Clone(cs), at, at+1)
	var bounds []Intervals
	term := slices.IndexFunc(ix.Parts, func(p schema.Part) bool { return p.Path == schema.TextTerm })
	prefix := new(bson.Builder)
	for _, p := range ix.Parts[:term] {
		i, v := equalTo(rest, p.Path)
		if i < 0 {
			return source{}, errTextIndex(c, q)
		}
		prefix.Value(p.Path, v)
		bounds = append(bounds, Intervals{Point(v)})
		if q.Collator == nil && v.Type != bson.TypeNull { // the bounds are exact
			rest = slices.Delete(rest, i, i+1)
		}
	}
	onKey, suffix, rest := afterTerms(q, ix, term+1, rest)
	var scans []Node
	for _, t := range query.Terms {
		b := append(slices.Clip(bounds), Intervals{Point(bson.String(schema.TermKey(t)))})
		for range ix.Parts[term+1:] {
			b = append(b, All)
		}
		scans = append(scans, &IndexScan{Index: ix, Bounds: b, Filter: join(onKey)})
	}
	var n Node = &TextMatch{searcher(q, ix, scans, join(suffix)), ix, prefix.Finish(), query}
	if len(rest) > 0 {
		n = &Fetch{n, join(rest)}
	}
	return source{ix: ix, node: n, sorted: q.Sort.IsEmpty(), bound: 1}, nil
}

// afterTerms splits the conjuncts: those on fields after the terms in the index, from
// part on, that a key decides, those that it does not, and those on other fields.
func afterTerms(q *Query, ix *Index, part int, cs []match.Node) (onKey, suffix, others []match.Node) {
	for _, c := range cs {
		f, ok := c.(interface{ FieldPath() string })
		at := -1
		if ok {
			at = slices.IndexFunc(ix.Parts[part:], func(p schema.Part) bool { return p.Path == f.FieldPath() })
		}
		switch {
		case at < 0:
			others = append(others, c)
		case q.Collator == nil && ix.standsAlone(part+at) && (decidedByKey(c) || comparesValue(c)):
			onKey = append(onKey, c)
		default:
			suffix = append(suffix, c)
		}
	}
	return onKey, suffix, others
}

// comparesValue reports whether a predicate compares with a value that is the same in a
// key: null there may also be a missing field.
func comparesValue(n match.Node) bool {
	switch n := n.(type) {
	case *match.Compare:
		return isPoint(n.Value)
	case *match.In:
		return len(n.Regexes) == 0 && !slices.ContainsFunc(n.Values, func(v bson.Value) bool { return !isPoint(v) })
	}
	return false
}

// standsAlone reports whether no other part begins or ends at the path of a part, so
// that a key has its complete value.
func (ix *Index) standsAlone(part int) bool {
	path := ix.Parts[part].Path
	return !slices.ContainsFunc(ix.Parts, func(p schema.Part) bool {
		return strings.HasPrefix(p.Path, path+".") || strings.HasPrefix(path, p.Path+".")
	})
}

// searcher returns the documents of the entries that scans find, each once. If q reads
// the scores, it reads all entries first.
func searcher(q *Query, ix *Index, scans []Node, filter match.Node) Node {
	if q.readsScore() {
		return &TextOr{Terms: scans, Index: ix, Filter: filter}
	}
	switch len(scans) {
	case 0:
		return &Fetch{&EOF{}, filter}
	case 1:
		return &Fetch{scans[0], filter}
	}
	return &Fetch{&Or{Nodes: scans}, filter}
}

// readsScore reports whether the scores of a $text are read.
func (q *Query) readsScore() bool {
	return q.TextScore || q.Projection != nil && slices.Contains(q.Projection.Meta(), "textScore") ||
		slices.ContainsFunc(q.Sort.Parts, func(p sortkey.Part) bool { return p.Meta == "textScore" })
}

// equalTo finds the conjunct with an equality on a path: -1 for none.
func equalTo(cs []match.Node, path string) (int, bson.Value) {
	for i, c := range cs {
		if e, ok := c.(*match.Compare); ok && e.Op == match.Eq && e.FieldPath() == path {
			return i, e.Value
		}
	}
	return -1, bson.Value{}
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
