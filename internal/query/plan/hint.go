package plan

import (
	"fmt"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// resolveHint returns the hinted index, or the hinted direction of a collection scan.
// An index filter overrides a hint.
func resolveHint(c *Collection, q *Query) (*Index, int, error) {
	if n := q.Sort.Natural(); n != 0 && q.Hint.IsMissing() {
		return nil, n, nil
	}
	if q.Allowed != nil {
		return nil, 0, nil
	}
	switch q.Hint.Type {
	case bson.Missing:
		return nil, 0, nil
	case bson.TypeString:
		for _, ix := range c.Indexes {
			if ix.Name == q.Hint.Str() && !ix.Hidden {
				return ix, 0, nil
			}
		}
	case bson.TypeDocument:
		k, v := q.Hint.Doc().First()
		if k == "" {
			return nil, 0, nil
		}
		if k == "$natural" {
			if q.Hint.Doc().Len() > 1 {
				return nil, 0, mongoerr.New(mongoerr.BadValue, "$natural hint may not be combined with other fields")
			}
			if n := bson.ToDouble(v); n == 1 || n == -1 {
				return nil, int(n), nil
			}
			return nil, 0, mongoerr.New(mongoerr.BadValue, "$natural hint must be 1 or -1")
		}
		var hinted *Index
		for _, ix := range c.Indexes {
			if bson.CompareDocs(ix.Key, q.Hint.Doc(), nil) != 0 || ix.Hidden {
				continue
			}
			if hinted != nil {
				return nil, 0, errPlanning(c, q, mongoerr.IndexNotFound,
					fmt.Sprintf("Hint matched multiple indexes, must hint by index name. Matched: %s and %s", hinted.hinted(), ix.hinted()))
			}
			hinted = ix
		}
		if hinted != nil {
			return hinted, 0, nil
		}
	}
	return nil, 0, errPlanning(c, q, mongoerr.BadValue, "hint provided does not correspond to an existing index")
}

// hinted formats the candidates of an ambiguous hint.
func (ix *Index) hinted() string { return fmt.Sprintf("kp: %s name: '%s'", ix.Key, ix.Name) }

// checkMinMax checks that min and max are keys of the hinted index, in the right order.
func checkMinMax(q *Query, hinted *Index, natural int) error {
	if q.Min == nil && q.Max == nil {
		return nil
	}
	if hinted == nil || natural != 0 {
		return mongoerr.New(mongoerr.Code(51173), "When using min()/max() a hint of which index to use must be provided")
	}
	for _, d := range []bson.Doc{q.Min, q.Max} {
		if d != nil && (hinted.Plugin != "" && hinted.Plugin != "hashed" || !keysOf(hinted, d) || slices.ContainsFunc(d.Slice(), hasStrings) && !hinted.sameCollation(q)) {
			return mongoerr.New(mongoerr.Code(51174), "The index chosen is not compatible with min/max")
		}
	}
	if q.Min == nil || q.Max == nil {
		return nil
	}
	lo, hi := q.Min.Slice(), q.Max.Slice()
	for i, p := range hinted.Parts {
		c := bson.CompareWith(lo[i], hi[i], q.Collator)
		if p.Descending {
			c = -c
		}
		if c < 0 {
			return nil
		}
		if c > 0 {
			break
		}
	}
	return mongoerr.New(mongoerr.Code(51175), "The value provided for min() does not come before the value provided for max() in the hinted index")
}

// keysOf reports whether d has the fields of the index, in its order.
func keysOf(ix *Index, d bson.Doc) bool {
	i := 0
	for name := range d.All() {
		if i == len(ix.Parts) || ix.Parts[i].Path != name {
			return false
		}
		i++
	}
	return i == len(ix.Parts)
}

// boundedByKeys scans the hinted index from the query's min to its max.
func boundedByKeys(q *Query, ix *Index, cs []match.Node) source {
	s := wholeIndex(q, ix, cs)
	n := s.node.(*IndexScan)
	n.Min, n.Max = keyBound(q, ix, q.Min), keyBound(q, ix, q.Max)
	// The smallest key of a document may be outside.
	s.sorted = s.sorted && (q.Sort.IsEmpty() || !ix.IsMultikey())
	return s
}

// keyBound returns the values of a min or max document as they are in the keys, in the
// order of the index's parts.
func keyBound(q *Query, ix *Index, d bson.Doc) []bson.Value {
	if d == nil {
		return nil
	}
	values := d.Slice()
	if ix.Collator != nil {
		for i, v := range values {
			values[i] = translator{ix, i, q}.collateValue(v)
		}
	}
	return values
}
