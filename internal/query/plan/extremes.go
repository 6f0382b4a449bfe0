package plan

import (
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// extremes are what conditions on measurements say of their buckets where an
// index can find those by it; nil for nothing. Where the times are bounded, an
// index without them would look at more than the order of the buckets does, so
// only one with the time counts, or any that is hinted.
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

// extremeOf says whether an index of buckets holds bounds of a field of the
// measurements.
func (ix *Index) extremeOf(path string) bool {
	return !ix.Hidden && slices.ContainsFunc(ix.Parts, func(p schema.Part) bool {
		return p.Plugin == schema.PluginExtreme && p.Path == "control.min."+path
	})
}

func (ix *Index) hasTime(o *schema.Timeseries) bool {
	return slices.ContainsFunc(ix.Parts, func(p schema.Part) bool { return p.Path == "control.min."+o.TimeField })
}

// sideBound is what one end of the values in a bucket must be.
type sideBound struct {
	op    match.Op
	value bson.Value
}

// valueReach is the interval of the values that satisfy a condition, as what
// the greatest and the least value of a bucket with one of them must be; false
// where more than values of one type may.
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

// bracketed says whether what compares with a value is of its type, in the
// order of all values.
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
