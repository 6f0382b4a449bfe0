package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Timeseries are the options of a time-series collection.
type Timeseries struct {
	TimeField       string
	MetaField       string // "" if there is none
	Granularity     string // "seconds", "minutes", "hours", or "" for custom spans
	MaxSpanSeconds  int64  // the longest time one bucket covers
	RoundingSeconds int64  // what a bucket's start is a multiple of
}

// maxSpan bounds a bucket's span, in seconds: 365 days.
const maxSpan = 31536000

// granularities say how long buckets are, and to what their start is rounded,
// in seconds.
var granularities = map[string]struct{ span, rounding int64 }{
	"seconds": {3600, 60},
	"minutes": {86400, 3600},
	"hours":   {2592000, 86400},
}

func loadTimeseries(d bson.Doc) *Timeseries {
	t := &Timeseries{
		TimeField: text(d.Lookup("timeField")), MetaField: text(d.Lookup("metaField")),
		Granularity: text(d.Lookup("granularity")), MaxSpanSeconds: bson.ClampToInt64(d.Lookup("bucketMaxSpanSeconds")),
	}
	if g, ok := granularities[t.Granularity]; ok {
		t.RoundingSeconds = g.rounding
		if t.MaxSpanSeconds == 0 {
			t.MaxSpanSeconds = g.span
		}
	} else {
		t.RoundingSeconds = bson.ClampToInt64(d.Lookup("bucketRoundingSeconds"))
	}
	return t
}

func (t *Timeseries) doc() bson.Doc {
	var b bson.Builder
	b.String("timeField", t.TimeField)
	if t.MetaField != "" {
		b.String("metaField", t.MetaField)
	}
	if t.Granularity != "" {
		b.String("granularity", t.Granularity)
	} else {
		b.Int("bucketRoundingSeconds", t.RoundingSeconds)
	}
	return b.Int("bucketMaxSpanSeconds", t.MaxSpanSeconds).Finish()
}

// withTimeseries are the options of `create` that go with timeseries.
var withTimeseries = map[string]bool{
	"timeseries": true, "storageEngine": true, "indexOptionDefaults": true, "collation": true,
	"expireAfterSeconds": true, "writeConcern": true, "comment": true,
}

// parseTimeseries checks the time-series options of `create`. Errors: 72, and 2
// for spans out of range and names with zero bytes.
func parseTimeseries(ns Namespace, args, d bson.Doc) (*Timeseries, error) {
	for name, v := range args.All() {
		if name == "create" || withTimeseries[name] || isGenericArgument(name) || v.IsNullish() || name == "capped" && !v.Truthy() {
			continue
		}
		return nil, mongoerr.New(mongoerr.InvalidOptions, "%s: 'timeseries' is not allowed with '%s'", ns, name)
	}
	t := &Timeseries{
		TimeField: text(d.Lookup("timeField")), MetaField: text(d.Lookup("metaField")),
		Granularity: text(d.Lookup("granularity")),
	}
	if err := t.checkNames(); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value string }{{"timeField", t.TimeField}, {"metaField", t.MetaField}} {
		if strings.Contains(f.value, ".") {
			return nil, mongoerr.New(mongoerr.InvalidOptions, "%s: '%s' must be a top-level field and not contain a '.'", ns, f.name)
		}
	}
	if meta := d.Lookup("metaField"); !meta.IsNullish() {
		switch t.MetaField {
		case "_id":
			return nil, mongoerr.New(mongoerr.InvalidOptions, `%s: 'metaField' cannot be "_id"`, ns)
		case t.TimeField:
			return nil, mongoerr.New(mongoerr.InvalidOptions, "%s: 'metaField' cannot be the same as 'timeField'", ns)
		}
	}
	return t, t.setSpans(d.Lookup("bucketMaxSpanSeconds"), d.Lookup("bucketRoundingSeconds"))
}

// ParseTimeseries checks time-series options by themselves, as create does. Errors: 2, 72.
func ParseTimeseries(ns Namespace, d bson.Doc) (*Timeseries, error) {
	return parseTimeseries(ns, bson.Empty, d)
}

// checkNames refuses fields with a null byte: error 2.
func (t *Timeseries) checkNames() error {
	for _, f := range []struct{ name, value string }{{"timeField", t.TimeField}, {"metaField", t.MetaField}} {
		if strings.IndexByte(f.value, 0) >= 0 {
			return mongoerr.New(mongoerr.BadValue, "The '%s' must not contain an embedded null byte", f.name)
		}
	}
	return nil
}

// OutTimeseries are the options of a time-series collection that $out makes:
// what they say of buckets is checked as by `create`, the fields are taken as
// they are. Errors: 72 and 2.
func OutTimeseries(d bson.Doc) (*Options, error) {
	t := &Timeseries{
		TimeField: text(d.Lookup("timeField")), MetaField: text(d.Lookup("metaField")),
		Granularity: text(d.Lookup("granularity")),
	}
	if err := t.checkNames(); err != nil {
		return nil, err
	}
	if err := t.setSpans(d.Lookup("bucketMaxSpanSeconds"), d.Lookup("bucketRoundingSeconds")); err != nil {
		return nil, err
	}
	return &Options{Timeseries: t, ExpireAfterSeconds: NoExpiry}, nil
}

// Same reports whether two collections have the same time-series options.
func (t *Timeseries) Same(o *Timeseries) bool { return *t == *o }

// setSpans computes the spans of buckets from what was given: a granularity, or
// both numbers, or nothing.
func (t *Timeseries) setSpans(span, rounding bson.Value) error {
	for _, f := range []struct {
		name string
		v    bson.Value
	}{{"bucketMaxSpanSeconds", span}, {"bucketRoundingSeconds", rounding}} {
		if f.v.IsNullish() {
			continue
		}
		if err := checkSpan(f.name, bson.ClampToInt64(f.v)); err != nil {
			return err
		}
	}
	t.MaxSpanSeconds, t.RoundingSeconds = bson.ClampToInt64(span), bson.ClampToInt64(rounding)
	given := t.Granularity != ""
	switch {
	case given && !rounding.IsNullish():
		return mongoerr.New(mongoerr.InvalidOptions, "Timeseries 'bucketRoundingSeconds' is not configurable when 'granularity' is set")
	case !given && span.IsNullish() && rounding.IsNullish():
		t.Granularity, given = "seconds", true
	case !given && (span.IsNullish() || rounding.IsNullish()):
		return mongoerr.New(mongoerr.InvalidOptions,
			"Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' need to be set alongside each other")
	}
	if !given {
		if t.MaxSpanSeconds != t.RoundingSeconds {
			return mongoerr.New(mongoerr.InvalidOptions, "Timeseries 'bucketRoundingSeconds' needs to be equal to 'bucketMaxSpanSeconds'")
		}
		return nil
	}
	g := granularities[t.Granularity]
	if !span.IsNullish() && t.MaxSpanSeconds != g.span {
		return mongoerr.New(mongoerr.InvalidOptions,
			"Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than the default of %d for the provided granularity", g.span)
	}
	t.MaxSpanSeconds, t.RoundingSeconds = g.span, g.rounding
	return nil
}

func checkSpan(name string, n int64) error {
	path := "create.timeseries." + name
	switch {
	case n < 1:
		return mongoerr.New(mongoerr.BadValue, "BSON field '%s' value must be >= 1, actual value '%d'", path, n)
	case n > maxSpan:
		return mongoerr.New(mongoerr.BadValue, "BSON field '%s' value must be <= %d, actual value '%d'", path, maxSpan, n)
	}
	return nil
}

// Modify returns the options with a coarser granularity or longer spans; zero
// values leave things as they are. Error 72 if a bucket would become
// shorter.
func (t *Timeseries) Modify(granularity string, span, rounding int64) (*Timeseries, error) {
	if granularity == "" && span == 0 && rounding == 0 {
		return t, nil
	}
	given := func(n int64) bson.Value {
		if n == 0 {
			return bson.Value{}
		}
		return bson.Int64(n)
	}
	to := &Timeseries{TimeField: t.TimeField, MetaField: t.MetaField, Granularity: granularity}
	if err := to.setSpans(given(span), given(rounding)); err != nil {
		return nil, err
	}
	if to.MaxSpanSeconds < t.MaxSpanSeconds || to.RoundingSeconds < t.RoundingSeconds {
		return nil, invalidOptions("Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' or 'minutes' to 'hours'.")
	}
	return to, nil
}
