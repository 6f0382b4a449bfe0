package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

const (
	// hashAfter is after how many documents, each joined by a query of its own, a
	// $lookup reads the other collection once as a whole instead.
	hashAfter = 4096
	// maxHashed bounds the documents that are held for that, in bytes.
	maxHashed = 32 << 20
)

// hashedSide is the collection that a $lookup joins, in memory, by the values
// of foreignField.
type hashedSide struct {
	docs   []byte // one after the other
	places []hashedPlace
	heads  map[string]hashedChain
	key    []byte
}

// hashedPlace is a document, and the next one with the same value, or -1.
type hashedPlace struct {
	from, to int
	next     int32
}

// hashedChain is the first and the last place with a value: documents are
// found in the order in which they were read.
type hashedChain struct{ first, last int32 }

// placeBytes is about what a place and its part of the map cost.
const placeBytes = 64

// hashed answers for d from the collection in memory. ok is false where that is
// not done: before it pays, where it does not fit, for values that more than
// equality decides, and for a pipeline that does more than join.
func (j *joining) hashed(ctx context.Context, d bson.Doc) (it Iterator, ok bool, err error) {
	l := j.l
	if j.opened++; j.opened <= hashAfter || j.vast || l.local == nil || l.let != nil || len(l.from.Pipeline.Stages) != l.from.joinAt {
		return nil, false, nil
	}
	if j.table == nil {
		foreign := strings.Split(l.foreign, ".")
		if slices.ContainsFunc(foreign, isIndex) {
			j.vast = true
			return nil, false, nil
		}
		if err := j.hash(ctx, foreign); err != nil || j.vast {
			return nil, false, err
		}
	}
	values := valuesAt(nil, bson.Document(d), l.local)
	if len(values) != 1 || !hashable(values[0]) {
		return nil, false, nil
	}
	return j.table.find(values[0], l), true, nil
}

// hashable says whether all that equals v, and nothing that does not, has its
// key.
func hashable(v bson.Value) bool {
	switch v.Type {
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal, bson.TypeString, bson.TypeObjectID, bson.TypeDate, bson.TypeBool, bson.TypeBinary:
		return true
	}
	return false
}

// hash reads the collection.
func (j *joining) hash(ctx context.Context, foreign []string) error {
	meta := j.r.Meta
	defer func() { j.r.Meta = meta }()
	in, err := j.l.from.open(ctx, j.r, nil, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	if h, ok := in.(interface{ Hides() bool }); ok && h.Hides() {
		j.vast = true
		return nil
	}
	t := &hashedSide{heads: map[string]hashedChain{}}
	var values []bson.Value
	for {
		d, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			j.table = t
			return nil
		}
		if err := j.r.check(ctx); err != nil {
			return err
		}
		from := len(t.docs)
		t.docs = append(t.docs, d...)
		values = valuesAt(values[:0], bson.Document(d), foreign)
		for i, v := range values {
			if hashable(v) {
				t.add(v, from, i, j.l.collator)
			}
		}
		if len(t.docs)+len(t.places)*placeBytes > maxHashed {
			j.vast = true
			return nil
		}
	}
}

// add enters the last document, which begins at from, under its i-th value; a
// value that it has twice counts once.
func (t *hashedSide) add(v bson.Value, from, i int, coll bson.Collator) {
	t.key = keystring.Append(t.key[:0], v, false, coll)
	at := int32(len(t.places))
	chain, ok := t.heads[string(t.key)]
	switch {
	case !ok:
		chain.first = at
	case i > 0 && t.places[chain.last].from == from:
		return
	default:
		t.places[chain.last].next = at
	}
	chain.last = at
	t.heads[string(t.key)] = chain
	t.places = append(t.places, hashedPlace{from, len(t.docs), -1})
}

// find returns the documents with a value.
func (t *hashedSide) find(v bson.Value, l *Lookup) Iterator {
	t.key = keystring.Append(t.key[:0], v, false, l.collator)
	chain, ok := t.heads[string(t.key)]
	if !ok {
		return &hashedMatches{at: -1}
	}
	return &hashedMatches{t, chain.first}
}

// hashedMatches delivers the documents of a chain.
type hashedMatches struct {
	t  *hashedSide
	at int32 // the next place, or -1
}

func (m *hashedMatches) Next(context.Context) (bson.Doc, error) {
	if m.at < 0 {
		return nil, nil
	}
	p := m.t.places[m.at]
	m.at = p.next
	return m.t.docs[p.from:p.to:p.to], nil
}

func (m *hashedMatches) Close() { m.at = -1 }
