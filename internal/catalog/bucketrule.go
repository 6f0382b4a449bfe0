package catalog

import (
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// BucketRule lets the measurements of a time-series collection expire, by
// their times: its expireAfterSeconds, or a TTL index with a filter on the
// metaField. Each rule works by itself, so the shortest counts.
type BucketRule struct {
	*schema.Rule
	Name string // of the index; "" for the collection's own
	// Filter is on measurements, and looks at nothing but the metaField; nil for
	// all.
	Filter *match.Filter
	// Building says that its index is not ready.
	Building bool
}

// Before is the last time that is due at an instant, in milliseconds.
func (r *BucketRule) Before(now int64) int64 {
	if r.Seconds > math.MaxInt64/1000 || now < math.MinInt64+r.Seconds*1000 {
		return math.MinInt64
	}
	return now - r.Seconds*1000
}

// DueAt is when a time is due, in milliseconds: the inverse of Before.
func (r *BucketRule) DueAt(at int64) int64 {
	if at > math.MaxInt64-r.Seconds*1000 {
		return math.MaxInt64
	}
	return at + r.Seconds*1000
}

// Wants says whether the rule is about the measurements of a source.
func (r *BucketRule) Wants(o *schema.Timeseries, s *Source) bool {
	if r.Filter == nil {
		return true
	}
	ok, err := r.Filter.Match(new(bson.Builder).Value(o.MetaField, s.Meta).Finish())
	return err == nil && ok
}

// DueNow is the condition on measurements that are due at an instant.
func (r *BucketRule) DueNow(o *schema.Timeseries, now int64) match.Node {
	due := match.Node(match.NewCompare(o.TimeField, match.Lte, bson.Date(r.Before(now)), nil))
	if r.Filter == nil {
		return due
	}
	return match.AndOf(r.Filter.Root(), due)
}

// Due is the instant of a measurement, or schema.Never. The document needs no
// other fields than the time and the meta value; without a time it is never due.
func (r *BucketRule) Due(o *schema.Timeseries, doc bson.Doc) int64 {
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

// HidingMeasurements are those of BucketRules that hide what is due
// (visibility: immediate), nil for none. As AllBucketRules, of a time-series
// collection only.
func (c *Collection) HidingMeasurements() (hiding []BucketRule) {
	for _, r := range c.BucketRules() {
		if r.Settings.Visibility == schema.Immediate {
			hiding = append(hiding, r)
		}
	}
	return hiding
}

// BucketRules are the rules of a time-series collection that are in force: not
// paused, and their indexes are ready. As AllBucketRules, of a time-series
// collection only.
func (c *Collection) BucketRules() []BucketRule {
	return slices.DeleteFunc(c.AllBucketRules(), func(r BucketRule) bool { return r.Settings.Paused || r.Building })
}

// AllBucketRules are the rules of a time-series collection, in force or not.
// REQUIRES: IsTimeseries.
func (c *Collection) AllBucketRules() []BucketRule {
	if !invariant.Check(c.IsTimeseries(), "catalog: rules of buckets are those of a time-series collection") {
		return nil
	}
	var rules []BucketRule
	if r := schema.SeriesRule(c.Settings); r != nil {
		rules = append(rules, BucketRule{Rule: r})
	}
	for _, ix := range c.indexes {
		if r := schema.IndexRule(ix.Index, &c.Settings.Expiry); r != nil {
			rules = append(rules, BucketRule{Rule: r, Name: ix.Name, Filter: ix.Filter, Building: !ix.Ready})
		}
	}
	return rules
}
