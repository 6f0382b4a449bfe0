package exec

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// Distinct calls yield with each document (or the part of it that an index
// holds) that can bring a new value of path, until it returns false. Where an
// index begins with path, it reads one entry for each value.
func (x *Executor) Distinct(ctx context.Context, c *catalog.Collection, q *Query, path string, yield func(bson.Doc) (bool, error)) (*Counted, error) {
	r, err := x.start(ctx, c, q, DistinctPlan(q, path))
	if err != nil {
		return nil, err
	}
	defer r.close()
	out := &Counted{Summary: Summary(r.winner.node), Stats: r.stats}
	var row stage.Row
	for {
		ok, err := r.next(ctx, &row)
		more := ok
		if err == nil && ok {
			more, err = yield(row.Doc)
		}
		if err != nil {
			return nil, mongoerr.Under(err, "Executor error during distinct command")
		}
		if !more {
			out.Keys, out.Docs = totals(r.winner.stage)
			return out, nil
		}
	}
}

// DistinctPlan prepares a query for the distinct values of a path, and turns its
// plans that read nothing but an index which holds the path, or its elements where
// all documents are asked for, into ones that skip from value to value.
func DistinctPlan(q *Query, path string) func(plan.Node) plan.Node {
	q.Distinct, q.Paths, q.NoExpress = path, []string{path}, true
	shape, err := project.ParseFind(new(bson.Builder).Int32("_id", 0).Int32(path, 1).Finish(), nil)
	if path == "_id" {
		shape, err = project.ParseFind(new(bson.Builder).Int32("_id", 1).Finish(), nil)
	}
	return func(n plan.Node) plan.Node {
		all := plan.MatchesAll(q.Filter)
		in := n
		fetch, fetching := n.(*plan.Fetch)
		if fetching {
			in = fetch.Input
		}
		s, ok := in.(*plan.IndexScan)
		if !ok || s.Min != nil || s.Max != nil || s.Filter != nil {
			return n
		}
		for i, p := range s.Index.Parts {
			if p.Path != path || p.Plugin != "" {
				continue
			}
			elements := s.Index.MultikeyPart(i)
			if elements && !(all && i == 0 && s.Index.HoldsElements(path)) || fetching && !elements {
				return n
			}
			scan := &plan.DistinctScan{Index: s.Index, Bounds: s.Bounds, Field: i, Backward: s.Backward, Elements: elements}
			if err != nil { // a path that is not allowed in a projection
				return scan
			}
			return &plan.Projection{Input: scan, Kind: plan.ProjectionCovered, Spec: shape}
		}
		return n
	}
}

// distinctScan reads the first entry for each value of the leading fields, and
// seeks past the rest. Null in a key may also be a missing field, which has no value:
// those entries are checked one by one.
type distinctScan struct {
	indexScan
	fields   int  // leading fields that make an entry distinct
	groups   bool // a missing field counts as a value
	elements bool // the first field's keys are of the elements of arrays, too
	b        bson.Builder
}

func (s *distinctScan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.indexScan.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return state, err
	}
	missing := false
	if !s.groups {
		missing, err = s.missing(row)
	}
	if err != nil {
		return stage.EOF, err
	}
	if missing {
		s.stats.Advanced--
		s.stats.NeedTime++
		return stage.NeedTime, nil
	}
	s.seek = s.past(row.Key)
	if s.elements {
		s.wrap(row)
	}
	return stage.Advanced, nil
}

// wrap puts an array that is itself an element into another array, because the reader
// of the row unwinds arrays.
func (s *distinctScan) wrap(row *stage.Row) {
	path := s.index.Parts[0].Path
	if v := row.Doc.Lookup(path); v.Type == bson.TypeArray {
		s.b.Reset(nil)
		s.b.OpenArray(path).Value("0", v).Close()
		row.Doc = s.b.Finish()
	}
}

// missing reports whether the last of the leading fields is null in the key and
// absent from the document; or undefined in the key, which an empty array is.
func (s *distinctScan) missing(row *stage.Row) (bool, error) {
	path := s.index.Parts[s.fields-1].Path
	var kind bson.Type
	if s.elements {
		kind = row.Doc.Lookup(path).Type
	} else if err := Elements(row.Doc, path, func(v bson.Value) error { kind = v.Type; return nil }); err != nil {
		return false, err
	}
	if s.cover == nil { // the row has the document itself, not what the key says
		return kind == 0, nil
	}
	if kind != bson.TypeNull && kind != bson.TypeUndefined {
		return false, nil
	}
	doc, closer, err := s.source.fetch(row.Record)
	if err != nil || doc == nil {
		return true, err
	}
	s.stats.DocsExamined++
	found := false
	err = Elements(doc, path, func(v bson.Value) error { found = found || v.Type == kind; return nil })
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return !found, err
}

// past returns where the scan continues after all keys that share the leading fields
// with key.
func (s *distinctScan) past(key []byte) []byte {
	n := leading(key, s.index, s.fields)
	if s.backward {
		return append([]byte(nil), key[:n]...)
	}
	return keystring.Successor(append([]byte(nil), key[:n]...))
}

// leading returns the length of the first n fields of a key.
func leading(key []byte, ix *plan.Index, n int) int {
	pos := 0
	for i := 0; i < n; i++ {
		pos += keystring.Skip(key[pos:], ix.Parts[i].Descending)
	}
	return pos
}

// Elements calls f with each value at a dotted path: arrays on the way and at
// its end count by their elements. Behind an array a number names a position,
// and not a field of its elements, as in mongod's distinct.
func Elements(doc bson.Doc, path string, f func(bson.Value) error) error {
	name, rest, more := strings.Cut(path, ".")
	return elementsOf(doc.Lookup(name), rest, more, f)
}

func elementsOf(v bson.Value, rest string, more bool, f func(bson.Value) error) error {
	switch {
	case v.IsMissing():
		return nil
	case !more && v.Type != bson.TypeArray:
		return f(v)
	case !more:
		for e := range v.Doc().Values() {
			if err := f(e); err != nil {
				return err
			}
		}
		return nil
	case v.Type == bson.TypeDocument:
		return Elements(v.Doc(), rest, f)
	case v.Type != bson.TypeArray:
		return nil
	}
	if name, after, deeper := strings.Cut(rest, "."); bson.AllDigits(name) {
		return elementsOf(v.Doc().Lookup(name), after, deeper, f)
	}
	for e := range v.Doc().Values() {
		if e.Type == bson.TypeDocument {
			if err := Elements(e.Doc(), rest, f); err != nil {
				return err
			}
		}
	}
	return nil
}
