package exec

import (
	"math"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// comparedNumbers are the conditions of a filter that compare a field of
// measurements with a number: those that a bucket's statistics can rule out.
func comparedNumbers(n match.Node) []*match.Compare {
	if n == nil {
		return nil
	}
	var out []*match.Compare
	for _, c := range match.Conjuncts(n) {
		cmp, ok := c.(*match.Compare)
		if ok && isRealNumber(cmp.Value) && !strings.Contains(cmp.FieldPath(), ".") {
			out = append(out, cmp)
		}
	}
	return out
}

// ruledOut says whether no measurement of a bucket can fulfil all conditions.
// Where the least and the greatest value of a field are numbers, all are.
func ruledOut(cs []*match.Compare, b *timeseries.Bucket, meta string) bool {
	for _, c := range cs {
		if meta != "" && c.FieldPath() == meta {
			continue
		}
		lo, hi := b.Min.Lookup(c.FieldPath()), b.Max.Lookup(c.FieldPath())
		if !isRealNumber(lo) || !isRealNumber(hi) {
			continue
		}
		below, above := bson.CompareNumbers(hi, c.Value), bson.CompareNumbers(lo, c.Value)
		switch c.Op {
		case match.Gt:
			if below <= 0 {
				return true
			}
		case match.Gte:
			if below < 0 {
				return true
			}
		case match.Lt:
			if above >= 0 {
				return true
			}
		case match.Lte:
			if above > 0 {
				return true
			}
		case match.Eq:
			if below < 0 || above > 0 {
				return true
			}
		}
	}
	return false
}

// isRealNumber says whether v is a number, and not NaN, which is less than all
// others in order and no less than any in a comparison.
func isRealNumber(v bson.Value) bool {
	return v.IsNumber() && !math.IsNaN(bson.ToDouble(v))
}
