package plan

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// translator turns a predicate on one path into the intervals of the indexed
// values that can satisfy it.
type translator struct {
	ix   *Index
	part int
	q    *Query
}

// access is the bounds of a predicate on one part of an index. exact: every key
// in the intervals belongs to a document that satisfies the predicate, so it
// need not be checked again.
type access struct {
	intervals Intervals
	exact     bool
}

// access translates a predicate; it reports whether the index can answer it.
func (t translator) access(p predicate) (access, bool) {
	if t.withinPicked(p) {
		return access{}, false
	}
	if p.compare == nil {
		return t.bounds(p.node)
	}
	a, ok := t.implied(p.compare)
	if ok && t.ix.Collator != nil {
		a.intervals = t.collate(a.intervals)
	}
	return a, ok
}

// bounds translates n; it reports whether the index can answer it.
func (t translator) bounds(n match.Node) (access, bool) {
	t.q.interrupt.Turn()
	bound, ok := n.(*match.BucketBound)
	if extreme := t.ix.Parts[t.part].Plugin == schema.PluginExtreme; ok || extreme {
		if !ok || !extreme || t.ix.Collator != nil {
			return access{}, false
		}
		return access{rangeOf(bound.Op, bound.Value, All[0]), true}, true
	}
	if t.ix.Sparse && matchesMissing(n) {
		return access{}, false
	}
	if t.picksElements() && (matchesMissing(n) || isNegation(n)) {
		return access{}, false
	}
	if t.ix.Wild != nil && !wildcardCan(n) && t.part == t.ix.Wild.part+1 {
		return access{}, false
	}
	if t.ix.Parts[t.part].Plugin == "hashed" {
		return t.hashed(n)
	}
	if isGeo(t.ix.Parts[t.part].Plugin) {
		return t.geo(n)
	}
	a, ok := t.translate(n)
	if ok && t.ix.Collator != nil {
		a.intervals = t.collate(a.intervals)
	}
	return a, ok
}

// picksElements reports whether a number in the path may have selected elements of arrays for the keys, which
// multikey paths do not record. A filter also matches fields of that name in the elements, and does not
// descend into the selected element, so the keys cannot decide it.
func (t translator) picksElements() bool {
	cs := t.ix.Parts[t.part].Components
	return len(cs) > 1 && slices.ContainsFunc(cs[1:], bson.AllDigits)
}

// withinPicked reports whether a predicate is about the elements of an array that a number in the path may
// select from another array: a wildcard index has no keys of those.
func (t translator) withinPicked(p predicate) bool {
	if w := t.ix.Wild; w == nil || !w.picks || t.part != w.part+1 {
		return false
	}
	_, elements := p.node.(*match.ElemMatchValue)
	return elements || len(p.elems) > 0
}

func isNegation(n match.Node) bool {
	_, ok := n.(*match.Not)
	return ok
}

func (t translator) translate(n match.Node) (access, bool) {
	switch n := n.(type) {
	case *match.Compare:
		return t.compare(n)
	case *match.In:
		return t.in(n)
	case *match.Regex:
		return t.regex(n)
	case *match.Exists:
		// A sparse index of several parts has documents with any of them.
		return access{All, t.ix.Sparse && !t.ix.IsMultikey() && len(t.ix.Parts) == 1}, true
	case *match.Type:
		return t.types(n)
	case *match.Mod:
		return access{Intervals{numbers}, false}, true
	case *match.ElemMatchValue:
		return t.elemMatch(n)
	case *match.Not:
		return t.not(n.Child)
	}
	return access{}, false
}

// usable reports whether the order of v in the index is that of the query: strings need the same collation.
func (t translator) usable(v bson.Value) bool {
	return !hasStrings(v) || t.ix.sameCollation(t.q)
}

func (t translator) compare(n *match.Compare) (access, bool) {
	v := n.Value
	if !t.usable(v) {
		return access{}, false
	}
	if n.Op == match.Eq {
		return t.equal(v), true
	}
	switch v.Type {
	case bson.TypeNull, bson.TypeUndefined:
		if n.Op == match.Lt || n.Op == match.Gt {
			return access{nil, true}, true
		}
		return t.equal(bson.Null), true
	case bson.TypeMinKey, bson.TypeMaxKey:
		if t.ix.Sparse {
			return access{}, false // they match missing fields, too
		}
		return access{rangeOf(n.Op, v, Interval{bson.MinKey, bson.MaxKey, true, true}), false}, true
	case bson.TypeArray:
		return access{All, false}, true
	case bson.TypeDouble, bson.TypeDecimal:
		if isNaN(v) {
			if n.Op == match.Lt || n.Op == match.Gt {
				return access{nil, true}, true
			}
			return access{Intervals{Point(v)}, true}, true
		}
	}
	l := rangeOf(n.Op, v, classInterval(v.Type))
	return access{l, v.Type != bson.TypeDocument || !t.ix.MultikeyPart(t.part)}, true
}

func isNaN(v bson.Value) bool {
	if v.Type == bson.TypeDecimal {
		return v.Decimal().IsNaN()
	}
	return math.IsNaN(v.Double())
}

// rangeOf splits the interval of a class at v.
func rangeOf(op match.Op, v bson.Value, class Interval) Intervals {
	switch op {
	case match.Lt, match.Lte:
		class.Hi, class.HiInc = v, op == match.Lte
	default:
		class.Lo, class.LoInc = v, op == match.Gte
	}
	return normalize(Intervals{class})
}

// equal returns the keys of documents that may equal v: null is also the key of missing fields, and with
// arrays also of other values; an array is found by its first element or as an element.
func (t translator) equal(v bson.Value) access {
	switch v.Type {
	case bson.TypeNull:
		return access{Intervals{Point(bson.Null)}, !t.ix.MultikeyPart(t.part)}
	case bson.TypeUndefined:
		return access{Intervals{Point(bson.Null)}, false}
	case bson.TypeArray:
		_, first := v.Doc().First()
		if first.IsMissing() {
			first = bson.Undefined
		}
		return access{normalize(Intervals{Point(first), Point(v)}), false}
	}
	return access{Intervals{Point(v)}, true}
}

func (t translator) in(n *match.In) (access, bool) {
	a := access{exact: true}
	for _, v := range n.Values {
		t.q.interrupt.Turn()
		if !t.usable(v) {
			return access{}, false
		}
		e := t.equal(v)
		a.intervals = append(a.intervals, e.intervals...)
		a.exact = a.exact && e.exact
	}
	for _, r := range n.Regexes {
		e, ok := t.regex(r)
		if !ok {
			return access{}, false
		}
		a.intervals = append(a.intervals, e.intervals...)
		a.exact = a.exact && e.exact
	}
	a.intervals = normalize(a.intervals)
	return a, true
}

// regex bounds a pattern that begins with ^ and plain text by that text; any other pattern reads all strings.
// A regular expression also equals itself as a value.
func (t translator) regex(n *match.Regex) (access, bool) {
	if t.ix.Collator != nil {
		return access{}, false
	}
	self := Point(bson.Regex(n.Pattern, n.Options))
	prefix, whole := regexPrefix(n.Pattern, n.Options)
	if prefix == "" {
		return access{Intervals{{bson.String(""), bson.Document(bson.Empty), true, false}, self}, false}, true
	}
	lo := bson.String(prefix)
	hi, ok := afterPrefix(prefix)
	if !ok {
		hi, whole = bson.Document(bson.Empty), false
	}
	return access{Intervals{{lo, hi, true, false}, self}, whole}, true
}

// afterPrefix returns the first string after all that begin with prefix; false where there is none that is
// UTF-8, or prefix is not.
func afterPrefix(prefix string) (bson.Value, bool) {
	r, size := utf8.DecodeLastRuneInString(prefix)
	switch {
	case r == utf8.RuneError && size == 1 || r == utf8.MaxRune:
		return bson.Value{}, false
	case r == surrogates-1:
		r += 1 << 11
	}
	return bson.String(prefix[:len(prefix)-size] + string(r+1)), true
}

// surrogates is the first of 2048 code points that UTF-8 does not have.
const surrogates = 0xD800

// regexPrefix returns the plain text that every match begins with, and whether that is the whole pattern.
func regexPrefix(pattern, options string) (prefix string, whole bool) {
	if strings.Trim(options, "s") != "" || alternates(pattern) {
		return "", false
	}
	rest, ok := strings.CutPrefix(pattern, "^")
	if !ok {
		if rest, ok = strings.CutPrefix(pattern, "\\A"); !ok {
			return "", false
		}
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case strings.IndexByte(".^$[]()+{}", c) >= 0:
			if rest[i:] == ".*" {
				return b.String(), true
			}
			return trimQuantified(b.String(), rest[i:]), false
		case c == '*' || c == '?':
			return trimQuantified(b.String(), rest[i:]), false
		case strings.HasPrefix(rest[i:], `\Q`): // up to \E all is plain text
			text, _, closed := strings.Cut(rest[i+2:], `\E`)
			b.WriteString(text)
			if i += len(text) + 1; closed {
				i += 2
			}
			continue
		case c == '\\':
			if i++; i == len(rest) || isWord(rest[i]) {
				return b.String(), false
			}
			c = rest[i]
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// alternates reports whether a pattern has a | that is not escaped.
func alternates(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '|':
			return true
		}
	}
	return false
}

// trimQuantified drops the last character if a quantifier follows that allows zero of it: {0,2}, but not {2}.
func trimQuantified(s, rest string) string {
	switch {
	case s == "" || strings.IndexByte("*?{", rest[0]) < 0:
		return s
	case rest[0] == '{' && len(rest) > 1 && rest[1] >= '1' && rest[1] <= '9':
		return s
	}
	_, size := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-size]
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func (t translator) types(n *match.Type) (access, bool) {
	if n.Types.Has(bson.TypeArray) || n.Types.Has(bson.TypeNull) || n.Types.Has(bson.TypeUndefined) {
		return access{All, false}, true
	}
	var l Intervals
	for c := 0; c < 256; c++ {
		if ty := bson.Type(c); ty.Valid() && n.Types.Has(ty) {
			l = append(l, wholeClass(ty))
		}
	}
	return access{normalize(l), false}, true
}

// elemMatch bounds the elements of an array. An array among them is one value
// in the index, so conditions on its own elements do not bound the keys.
func (t translator) elemMatch(n *match.ElemMatchValue) (access, bool) {
	l, any := All, false
	for _, c := range n.Children {
		if _, nested := c.(*match.ElemMatchValue); nested {
			continue
		}
		if a, ok := t.translate(c); ok {
			l, any = intersect(l, a.intervals), true
		}
	}
	return access{l, false}, any
}

// not translates the negation of n. A sparse index lacks documents that a
// negation matches, unless null is among what it negates.
func (t translator) not(n match.Node) (access, bool) {
	if e, ok := n.(*match.Exists); ok && e != nil {
		return access{Intervals{Point(bson.Null)}, false}, !t.ix.Sparse
	}
	multikey := t.ix.MultikeyPart(t.part)
	switch n := n.(type) {
	case *match.Compare:
		if n.Op == match.Eq && n.Value.Type == bson.TypeNull {
			// An empty array on the path leaves null in the key of a document that
			// has no null.
			return access{complement(Intervals{Point(bson.Null)}), true}, !multikey
		}
		if n.Value.Type == bson.TypeArray || n.Value.Type == bson.TypeMinKey || n.Value.Type == bson.TypeMaxKey {
			return access{}, false
		}
	case *match.In:
		if len(n.Regexes) > 0 {
			return access{}, false
		}
		for _, v := range n.Values {
			if v.Type == bson.TypeArray || v.Type == bson.TypeUndefined {
				return access{}, false
			}
		}
	default:
		return access{}, false
	}
	a, ok := t.translate(n)
	if !ok || !a.exact || t.ix.Sparse && !matchesMissing(n) {
		return access{}, false
	}
	return access{complement(a.intervals), !multikey}, true
}

// hashed supports equality only: the keys are the hashes of the values, which may collide, so a document is
// always checked.
func (t translator) hashed(n match.Node) (access, bool) {
	var values []bson.Value
	switch n := n.(type) {
	case *match.Compare:
		if n.Op != match.Eq {
			return access{}, false
		}
		values = []bson.Value{n.Value}
	case *match.In:
		if len(n.Regexes) > 0 {
			return access{}, false
		}
		values = n.Values
	case *match.Exists:
		return access{All, false}, true
	case *match.Not:
		if _, ok := n.Child.(*match.Exists); !ok || t.ix.Sparse {
			return access{}, false
		}
		values = []bson.Value{bson.Null}
	default:
		return access{}, false
	}
	var l Intervals
	for _, v := range values {
		if !t.usable(v) {
			return access{}, false
		}
		if v.Type == bson.TypeArray {
			continue // no document under a hashed index holds an array
		}
		if v.IsNullish() {
			v = bson.Null
		}
		l = append(l, Point(bson.Int64(schema.HashOf(v, t.ix.Collator))))
	}
	return access{normalize(l), false}, true
}

// collate replaces strings by their collation keys in the index.
func (t translator) collate(l Intervals) Intervals {
	out := make(Intervals, len(l))
	for i, iv := range l {
		iv.Lo, iv.Hi = t.collateValue(iv.Lo), t.collateValue(iv.Hi)
		out[i] = iv
	}
	return normalize(out)
}

func (t translator) collateValue(v bson.Value) bson.Value {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return bson.String(string(t.ix.Collator.AppendKey(nil, v.Str())))
	case bson.TypeDocument, bson.TypeArray:
		var b bson.Builder
		for it := v.Doc().Iter(); it.Next(); {
			b.Value(it.Key, t.collateValue(it.Value))
		}
		return bson.Value{Type: v.Type, Data: b.Finish()}
	}
	return v
}

// matchesMissing reports whether a comparison is true for a document without the field.
func matchesMissing(n match.Node) bool {
	switch n := n.(type) {
	case *match.Compare:
		return n.Value.IsNullish() && n.Op != match.Lt && n.Op != match.Gt
	case *match.In:
		return slices.ContainsFunc(n.Values, bson.Value.IsNullish)
	}
	return false
}
