package plan

import (
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// extremes translates conditions on measurements into conditions on their buckets that
// an index can answer; nil for none. If the times are bounded, an index without them
// would read more than a scan in the order of the buckets, so only an index with the
// time is used, or any that is hinted.
func (n *Unpack) extremes(c *Collection, q *Query, conditions []match.Node) (bounds []match.Node) {
	timed := n.From != math.MinInt64 || n.To != math.MaxInt64
	for _, p := range conditions {
		leaf, ok := p.(match.Leaf)
		if !ok || !slices.ContainsFunc(c.Indexes, func(ix *Index) bool {
			return ix.extremeOf(leaf.FieldPath()) && (!timed || !q.Hint.IsMissing() || ix.hasTime(n.Options))
		}) {
			continue
		}
		lo, hi, ok := valueReach(p, q)
		if !ok {
			continue
		}
		components := strings.Split(leaf.FieldPath(), ".")
		bounds = append(bounds,
			match.NewBucketBound(leaf.FieldPath(), components, true, lo.op, lo.value),
			match.NewBucketBound(leaf.FieldPath(), components, false, hi.op, hi.value))
	}
	return bounds
}

// extremeOf reports whether an index of buckets has the bounds of a measurements' field.
func (ix *Index) extremeOf(path string) bool {
	return !ix.Hidden && slices.ContainsFunc(ix.Parts, func(p schema.Part) bool {
		return p.Plugin == schema.PluginExtreme && p.Path == "control.min."+path
	})
}

func (ix *Index) hasTime(o *schema.Timeseries) bool {
	return slices.ContainsFunc(ix.Parts, func(p schema.Part) bool { return p.Path == "control.min."+o.TimeField })
}

// sideBound is the condition on the least or the greatest value of a bucket.
type sideBound struct {
	op    match.Op
	value bson.Value
}

// valueReach returns the conditions on the greatest and the least value of buckets that
// may contain a value which satisfies a condition; false if values of several types may
// satisfy it.
func valueReach(p match.Node, q *Query) (greatest, least sideBound, ok bool) {
	switch n := p.(type) {
	case *match.Compare:
		if !bracketed(n.Value, q) {
			return greatest, least, false
		}
		class := wholeClass(n.Value.Type)
		greatest, least = sideBound{match.Gte, class.Lo}, sideBound{match.Lt, class.Hi}
		switch n.Op {
		case match.Eq:
			greatest, least = sideBound{match.Gte, n.Value}, sideBound{match.Lte, n.Value}
		case match.Gt, match.Gte:
			greatest = sideBound{n.Op, n.Value}
		default:
			least = sideBound{n.Op, n.Value}
		}
		return greatest, least, true
	case *match.In:
		if len(n.Values) == 0 || len(n.Regexes) > 0 || slices.ContainsFunc(n.Values, func(v bson.Value) bool { return !bracketed(v, q) }) {
			return greatest, least, false
		}
		lo, hi := n.Values[0], n.Values[0]
		for _, v := range n.Values[1:] {
			if bson.Compare(v, lo) < 0 {
				lo = v
			}
			if bson.Compare(v, hi) > 0 {
				hi = v
			}
		}
		return sideBound{match.Gte, lo}, sideBound{match.Lte, hi}, true
	}
	return greatest, least, false
}

// bracketed reports whether a value compares only with values of its own type.
func bracketed(v bson.Value, q *Query) bool {
	switch v.Type {
	case bson.TypeDouble, bson.TypeDecimal:
		return !isNaN(v)
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDate, bson.TypeBool, bson.TypeObjectID:
		return true
	case bson.TypeString:
		return q.Collator == nil
	}
	return false
}
