package shard

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Bounds of the work of targeting one filter. A filter beyond them targets all shards
// that own chunks, which is always correct.
const (
	maxPlaces   = 100_000 // points and ranges that are looked up
	maxBranches = 1_000   // branches of $or that are analysed
)

// Targets are the shards that a statement targets, and the reason. Shards is sorted by
// name, never empty, and must not be changed.
type Targets struct {
	Shards []string
	Reason Reason
}

// Reason says why a statement targets these shards.
type Reason uint8

// The reasons.
const (
	// ByKey: the filter has the value of every field of the shard key.
	ByKey Reason = iota
	// ByBounds: the filter bounds the shard key.
	ByBounds
	// Nothing: no document can match; one shard returns the empty result.
	Nothing
	// NoBounds: the filter does not bound the shard key.
	NoBounds
	// Collated: strings bound it, but not in the simple collation, by which chunks
	// are ordered and hashes made.
	Collated
	// TooMany: computing the shards would take longer than asking all.
	TooMany
)

// String returns the reason in words, for explain.
func (r Reason) String() string {
	return [...]string{"shard key", "bounds on the shard key", "nothing can match", "no bounds on the shard key",
		"collation is not simple", "too many bounds on the shard key"}[r]
}

// Target returns shards that together have every document which the query's filter can
// match (invariant superset). It uses Filter, Collation, Collator and Env. The
// collation is the effective one: the collection's if the statement has none.
func (m *Map) Target(q *plan.Query) Targets {
	if q.Filter == nil {
		return Targets{m.owners, NoBounds}
	}
	root := q.Filter.Root()
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if at, ok := m.key.appendEqual(s.key[:0], root, q.Collator); ok {
		s.key = at
		n := m.number(at)
		return Targets{m.shards[n : n+1], ByKey}
	}
	t := targeter{m: m, q: q, ix: m.key.index, key: s.key[:0], places: maxPlaces, branches: maxBranches, reason: Nothing}
	t.has = make([]bool, len(m.shards))
	t.node(root)
	s.key = t.key
	return t.targets()
}

// scratch is memory for the bytes of a key.
type scratch struct{ key []byte }

var scratches = sync.Pool{New: func() any { return &scratch{make([]byte, 0, 256)} }}

// appendEqual appends the position of the documents that n matches, if it has one value
// for every field of the key. Equal numbers with different hashes
// do not count.
func (k *Key) appendEqual(dst []byte, n match.Node, coll bson.Collator) ([]byte, bool) {
	for i := range k.Parts {
		v, ok := equalTo(n, &k.Parts[i])
		if !ok || coll != nil && hasStrings(v) || i == k.Hashed && !hashesAlike(v) {
			return dst, false
		}
		dst = k.AppendPart(dst, i, v)
	}
	return dst, true
}

// equalTo returns the value that every document which n matches has at a path:
// from an equality on the path, or from one with a document on a parent path.
// Null stands for a missing field.
func equalTo(n match.Node, part *schema.Part) (bson.Value, bool) {
	if and, ok := n.(*match.And); ok {
		for _, c := range and.Children {
			if v, ok := equalTo(c, part); ok {
				return v, true
			}
		}
		return bson.Value{}, false
	}
	c, ok := n.(*match.Compare)
	if !ok || c.Op != match.Eq {
		return bson.Value{}, false
	}
	v := c.Value
	if c.Path != part.Path {
		rest, below := strings.CutPrefix(part.Path, c.Path)
		if !below || rest[0] != '.' || v.Type != bson.TypeDocument {
			return bson.Value{}, false
		}
		inner := schema.NewPart(rest[1:])
		v = inner.Value(v.Doc())
	}
	if v.Type == bson.TypeArray || v.Type == bson.TypeUndefined {
		return bson.Value{}, false
	}
	return v, true
}

func hasStrings(v bson.Value) bool {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol, bson.TypeDocument, bson.TypeArray:
		return true
	}
	return false
}

// asIndex describes the key to the planner: every field by its value, no arrays.
func (k *Key) asIndex() *plan.Index {
	parts := slices.Clone(k.Parts)
	for i := range parts {
		parts[i].Plugin = ""
	}
	return &plan.Index{Index: &schema.Index{Key: k.Pattern(), Parts: parts}}
}

// targeter collects the shards of one filter.
type targeter struct {
	m                *Map
	q                *plan.Query
	ix               *plan.Index
	key              []byte
	has              []bool // by number
	count            int
	places, branches int
	reason           Reason
}

func (t *targeter) full() bool { return t.count == len(t.m.owners) }

func (t *targeter) add(shard int) {
	if !t.has[shard] {
		t.has[shard] = true
		t.count++
	}
}

func (t *targeter) all(why Reason) {
	t.count, t.reason = len(t.m.owners), why
}

func (t *targeter) targets() Targets {
	switch {
	case t.full():
		return Targets{t.m.owners, t.reason}
	case t.count == 0:
		n := t.m.blocks[0].entries[0].shard()
		return Targets{t.m.shards[n : n+1], Nothing}
	case t.count == 1:
		n := slices.Index(t.has, true)
		return Targets{t.m.shards[n : n+1], t.reason}
	}
	names := make([]string, 0, t.count)
	for n, has := range t.has {
		if has {
			names = append(names, t.m.shards[n])
		}
	}
	slices.Sort(names)
	return Targets{names, t.reason}
}

// node adds the shards of a part of the filter.
func (t *targeter) node(n match.Node) {
	if always, ok := n.(*match.Always); ok && !always.True {
		return
	}
	if or, ok := n.(*match.Or); ok {
		t.or(nil, or)
		return
	}
	bounds := plan.KeyBounds(t.q, t.ix, n)
	if h := t.m.key.Hashed; h >= 0 {
		bounds[h] = hashed(bounds[h])
	}
	if slices.ContainsFunc(bounds, func(l plan.Intervals) bool { return len(l) == 0 }) {
		return
	}
	if !bounds[0].IsAll() {
		t.reason = ByBounds
		t.field(bounds, 0, t.key[:0])
		return
	}
	// An $or may bound the key when the other conditions do not.
	if and, ok := n.(*match.And); ok {
		for i, c := range and.Children {
			if or, ok := c.(*match.Or); ok {
				t.or(slices.Concat(and.Children[:i], and.Children[i+1:]), or)
				return
			}
		}
	}
	if t.q.Collator != nil && t.boundsStrings(n) {
		t.all(Collated)
		return
	}
	t.all(NoBounds)
}

// boundsStrings reports whether the first field of the key would be bounded in the
// simple collation.
func (t *targeter) boundsStrings(n match.Node) bool {
	simple := *t.q
	simple.Collation, simple.Collator = nil, nil
	return !plan.KeyBounds(&simple, t.ix, n)[0].IsAll()
}

// or adds the shards of each branch, in conjunction with the other conditions.
func (t *targeter) or(others []match.Node, or *match.Or) {
	for _, branch := range or.Children {
		if t.full() {
			return
		}
		if t.branches--; t.branches < 0 {
			t.all(TooMany)
			return
		}
		if len(others) > 0 {
			branch = &match.And{Children: slices.Concat(others, match.Conjuncts(branch))}
		}
		t.node(branch)
	}
}

// field continues from the bytes of the fields before the i-th, each of which
// has one value. What it appends after them is overwritten by the next call.
func (t *targeter) field(bounds []plan.Intervals, i int, prefix []byte) {
	if i == len(bounds) {
		t.key = prefix[:0]
		t.add(t.m.number(prefix))
		return
	}
	for _, iv := range bounds[i] {
		if t.full() {
			return
		}
		if t.places--; t.places < 0 {
			t.all(TooMany)
			return
		}
		if iv.IsPoint() {
			t.field(bounds, i+1, keystring.Append(prefix, iv.Lo, false, nil))
			continue
		}
		lo := keystring.Append(slices.Clone(prefix), iv.Lo, false, nil)
		hi := keystring.Append(slices.Clone(prefix), iv.Hi, false, nil)
		if iv.LoInc {
			lo = lowest(lo, bounds[i+1:])
		} else {
			lo = keystring.Successor(lo)
		}
		if iv.HiInc {
			hi = highest(hi, bounds[i+1:])
		}
		t.addRange(lo, hi)
	}
}

// lowest returns the lower end of the keys with a prefix whose further fields are
// bounded.
func lowest(prefix []byte, rest []plan.Intervals) []byte {
	for _, l := range rest {
		prefix = keystring.Append(prefix, l[0].Lo, false, nil)
		if !l[0].LoInc {
			return keystring.Successor(prefix)
		}
	}
	return prefix
}

// highest returns an upper end, after the last of these keys.
func highest(prefix []byte, rest []plan.Intervals) []byte {
	for _, l := range rest {
		last := l[len(l)-1]
		prefix = keystring.Append(prefix, last.Hi, false, nil)
		if !last.HiInc {
			return prefix
		}
	}
	return keystring.Successor(prefix)
}

// addRange adds the shards that own keys from lo up to, not including, hi.
func (t *targeter) addRange(lo, hi []byte) {
	if bytes.Compare(lo, hi) >= 0 {
		return
	}
	m := t.m
	n := m.blockOf(lo)
	for i := m.blocks[n].find(lo); n < len(m.blocks) && !t.full(); n, i = n+1, 0 {
		b := m.blocks[n]
		if i == 0 && bytes.Compare(b.last().Key, hi) <= 0 {
			for _, s := range b.owners {
				t.add(int(s))
			}
			continue
		}
		for ; i < len(b.entries); i++ {
			if bytes.Compare(b.start(i).Key, hi) >= 0 {
				return
			}
			t.add(b.entries[i].shard())
		}
	}
}
