package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// distinctScan reads the first entry for each value of the leading fields, and
// seeks past the rest. Null in a key also stands for a missing field, which has
// no value: those entries are looked at one by one.
type distinctScan struct {
	indexScan
	fields   int  // leading fields that make an entry distinct
	groups   bool // what is missing counts as a value
	elements bool // the first field's keys are of the elements of arrays, too
	b        bson.Builder
}

func (s *distinctScan) Work(ctx context.Context, row *Row) (State, error) {
	state, err := s.indexScan.Work(ctx, row)
	if err != nil || state != Advanced {
		return state, err
	}
	missing := false
	if !s.groups {
		missing, err = s.missing(row)
	}
	if err != nil {
		return EOF, err
	}
	if missing {
		s.stats.Advanced--
		s.stats.NeedTime++
		return NeedTime, nil
	}
	s.seek = s.past(row.Key)
	if s.elements {
		s.wrap(row)
	}
	return Advanced, nil
}

// wrap puts an array that is itself an element back into one: whoever takes the
// row's values takes arrays apart.
func (s *distinctScan) wrap(row *Row) {
	path := s.index.Parts[0].Path
	if v := row.Doc.Lookup(path); v.Type == bson.TypeArray {
		s.b.Reset(nil)
		s.b.OpenArray(path).Value("0", v).Close()
		row.Doc = s.b.Finish()
	}
}

// missing says whether the last of the leading fields is null in the key and
// absent from the document; or undefined in the key, which an empty array is.
func (s *distinctScan) missing(row *Row) (bool, error) {
	path := s.index.Parts[s.fields-1].Path
	var kind bson.Type
	if s.elements {
		kind = row.Doc.Lookup(path).Type
	} else if err := Elements(row.Doc, path, func(v bson.Value) error { kind = v.Type; return nil }); err != nil {
		return false, err
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

// past is where the scan goes on behind all keys that share the leading fields
// with key.
func (s *distinctScan) past(key []byte) []byte {
	n := leading(key, s.index, s.fields)
	if s.backward {
		return append([]byte(nil), key[:n]...)
	}
	return keystring.Successor(append([]byte(nil), key[:n]...))
}

// leading is how long the first n fields of a key are.
func leading(key []byte, ix *plan.Index, n int) int {
	pos := 0
	for i := 0; i < n; i++ {
		pos += keystring.Skip(key[pos:], ix.Parts[i].Descending)
	}
	return pos
}
