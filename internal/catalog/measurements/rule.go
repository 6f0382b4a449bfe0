package measurements

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Rule lets the measurements of a time-series collection expire, by their times: its
// expireAfterSeconds, or a TTL index with a filter on the metaField. Each rule works
// by itself, so the shortest counts.
type Rule struct {
	*schema.Rule
	Name string // of the index; "" for the collection's own
	// Filter is on measurements, and uses only the metaField; nil for all.
	Filter *match.Filter
	// Building says that its index is not ready.
	Building bool
}

// Before returns the last time that is due at an instant, in milliseconds.
func (r *Rule) Before(now int64) int64 {
	if r.Seconds > math.MaxInt64/1000 || now < math.MinInt64+r.Seconds*1000 {
		return math.MinInt64
	}
	return now - r.Seconds*1000
}

// DueAt returns when a time is due, in milliseconds: the inverse of Before.
func (r *Rule) DueAt(at int64) int64 {
	if at > math.MaxInt64-r.Seconds*1000 {
		return math.MaxInt64
	}
	return at + r.Seconds*1000
}

// Wants reports whether the rule applies to the measurements of a source.
func (r *Rule) Wants(o *schema.Timeseries, s *Source) bool {
	if r.Filter == nil {
		return true
	}
	ok, err := r.Filter.Match(new(bson.Builder).Value(o.MetaField, s.Meta).Finish())
	return err == nil && ok
}

// Buckets returns the filter that finds, of the buckets that a condition on their times finds,
// those whose measurements the rule applies to. It compares strings as the rule's index does.
func (r *Rule) Buckets(o *schema.Timeseries, times bson.Doc) (*match.Filter, error) {
	if r.Filter == nil {
		return match.Parse(times, nil)
	}
	var b bson.Builder
	b.OpenArray("$and").Doc("0", times).Doc("1", o.BucketFilter(match.Serialize(r.Filter.Root())))
	_, order := r.Collation()
	return match.Parse(b.Close().Finish(), &match.Options{Collator: order})
}

// Collation is that of the rule's index, nil for the simple one.
func (r *Rule) Collation() (spec bson.Doc, order bson.Collator) {
	if r.Index == nil {
		return nil, nil
	}
	return r.Index.Collation, r.Index.Collator
}

// DueNow returns the condition on measurements that are due at an instant.
func (r *Rule) DueNow(o *schema.Timeseries, now int64) match.Node {
	due := match.Node(match.NewCompare(o.TimeField, match.Lte, bson.Date(r.Before(now)), nil))
	if r.Filter == nil {
		return due
	}
	return match.AndOf(r.Filter.Root(), due)
}

// Due returns the instant of a measurement, or schema.Never. The document needs
// no other fields than the time and the meta value; without a time it is never
// due.
func (r *Rule) Due(o *schema.Timeseries, doc bson.Doc) int64 {
	if r.Filter != nil {
		if in, err := r.Filter.Match(doc); err != nil || !in {
			return schema.Never
		}
	}
	v := doc.Lookup(o.TimeField)
	if v.Type != bson.TypeDate {
		return schema.Never
	}
	t := v.Date()
	if r.Seconds > math.MaxInt64/1000 || t > schema.Never-1-r.Seconds*1000 {
		return schema.Never - 1
	}
	return t + r.Seconds*1000
}
