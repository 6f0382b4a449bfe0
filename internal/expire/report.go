package expire

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/expire/forecast"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Report returns the result of $expiryStats for a collection: one document for
// each TTL index, and for the collection's own expireAfterSeconds. What is due,
// and when, is read from the indexes alone. c may be nil.
func (m *Monitor) Report(ctx context.Context, c *catalog.Collection) ([]bson.Doc, error) {
	if c == nil {
		return nil, nil
	}
	if c.IsTimeseries() {
		return m.reportSeries(ctx, c)
	}
	var docs []bson.Doc
	for _, ix := range c.Indexes() {
		var r *schema.Rule
		if ix.Clusters() {
			r = schema.CollectionRule(c.Settings, ix.Index)
		} else {
			r = schema.IndexRule(ix.Index, &c.Settings.Expiry)
		}
		if r == nil && !ix.IsTTL() {
			continue
		}
		d, err := m.reportRule(ctx, c, ix, r)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func (m *Monitor) reportRule(ctx context.Context, c *catalog.Collection, ix *catalog.Index, r *schema.Rule) (bson.Doc, error) {
	var b bson.Builder
	b.String("ns", c.Namespace.String()).String("rule", ix.Name).Doc("key", ix.Key)
	if r == nil {
		b.Int("expireAfterSeconds", ix.ExpireAfterSeconds)
		b.Strings("skipped", fmt.Sprintf("an index of type '%s' is not in order of dates", ix.Plugin))
		return b.Finish(), nil
	}
	appendRule(&b, r)
	if !ix.Ready {
		b.Strings("skipped", building)
		return b.Finish(), nil
	}
	in := &catalog.Rule{Rule: r, Index: ix}
	now := m.o.Catalog.Clock.ExpiryTime()
	f, err := forecast.OfIndex(ctx, m.o.Exec, c, in, now)
	if err != nil {
		return nil, err
	}
	name := ix.Name
	if r.Kind == schema.ByID {
		name = ""
	}
	record := m.Status(c, name)
	appendState(&b, append(m.kept(c.Namespace.DB, r, f, record), dateless(c, in, f)...), f, record)
	if c.WindowedBy(in) {
		b.Int("unswept", c.Unswept())
	}
	m.appendRelayout(&b, c)
	return b.Finish(), nil
}

// seriesRule is the name, in a report, of the rule of a time-series
// collection's own expireAfterSeconds.
const seriesRule = "expireAfterSeconds"

// reportSeries is Report for a time-series collection, whose documents are
// measurements.
func (m *Monitor) reportSeries(ctx context.Context, c *catalog.Collection) ([]bson.Doc, error) {
	var docs []bson.Doc
	rules := c.AllBucketRules()
	for i := range rules {
		r := &rules[i]
		name, key := r.Name, new(bson.Builder).Int32(c.Settings.Timeseries.TimeField, 1).Finish()
		if r.Index != nil {
			key = r.Index.Key
		} else {
			name = seriesRule
		}
		var b bson.Builder
		b.String("ns", c.Namespace.String()).String("rule", name).Doc("key", key)
		if r.Filter != nil {
			b.Doc("filter", match.Serialize(r.Filter.Root()))
		}
		appendRule(&b, r.Rule)
		if r.Building {
			b.Strings("skipped", building)
			docs = append(docs, b.Finish())
			continue
		}
		f, err := forecast.OfBuckets(ctx, m.o.Exec, c, r, m.o.Catalog.Clock.ExpiryTime())
		if err != nil {
			return nil, err
		}
		record := m.Status(c, r.Name)
		appendState(&b, m.kept(c.Namespace.DB, r.Rule, f, record), f, record)
		docs = append(docs, b.Finish())
	}
	return docs, nil
}

const building = "the index is being built"

// appendRule writes the definition of a rule.
func appendRule(b *bson.Builder, r *schema.Rule) {
	b.String("kind", r.Kind.String()).Int("expireAfterSeconds", r.Seconds)
	visibility := schema.Deferred
	if r.Settings.Visibility == schema.Immediate {
		visibility = schema.Immediate
	}
	b.String("visibility", string(visibility)).Bool("paused", r.Settings.Paused)
}

// appendState writes what is due, what was removed, and what keeps the rule from
// removing more.
func appendState(b *bson.Builder, why []string, f *forecast.Forecast, record Record) {
	if len(why) > 0 {
		b.Strings("skipped", why...)
	}
	f.Append(b)
	lag := int64(0)
	if f.Due.Documents > 0 {
		lag = (f.Now - f.Oldest) / 1000
	}
	b.Int("lagSeconds", lag)
	appendRecord(b, record, f.Bucketed)
}

// appendRecord writes what a rule has removed; for a time-series collection,
// buckets as well as documents.
func appendRecord(b *bson.Builder, r Record, series bool) {
	removed := func(r Removed) {
		b.Int("documents", r.Documents)
		if series {
			b.Int("buckets", r.Buckets)
		}
		b.Int("bytes", r.Bytes).Int("keys", r.Keys)
	}
	b.OpenDoc("removed")
	removed(r.Removed)
	b.Close().Double("removedPerSecond", r.PerSecond)
	if r.Last.At.IsZero() {
		b.Null("lastPass")
		return
	}
	b.OpenDoc("lastPass").Date("at", r.Last.At.UnixMilli()).Int("micros", r.Last.Took.Microseconds())
	removed(r.Last.Removed)
	b.Bool("more", r.Last.More).Close()
}

// kept returns what keeps a rule from removing documents at all; nil for
// nothing.
func (m *Monitor) kept(db string, r *schema.Rule, f *forecast.Forecast, record Record) (why []string) {
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if held := m.held.Load(); held != nil {
		add("%s", *held)
	}
	if !m.params.Enabled.Load() {
		add("ttlMonitorEnabled is false")
	}
	if m.o.Dispatcher.Gate.Locks() > 0 {
		add("writes are locked (fsync)")
	}
	if m.o.Dispatcher.MayWrite(db) != nil {
		add("user writes are blocked (setUserWriteBlockMode)")
	}
	if err := m.o.Dispatcher.TakesWrites(); err != nil {
		add("this member takes no writes: %s", mongoerr.From(err).Message)
	}
	if r.Settings.Paused {
		add("paused")
	}
	if at := time.UnixMilli(f.Now); !r.Settings.Window.Open(at) {
		add("outside of its window, which opens at %s", r.Settings.Window.Opens(at).UTC().Format(time.RFC3339))
	}
	switch {
	case f.Due.Documents == 0:
	case record.Unshared:
		add("the config servers have not said what of its budget is this shard's")
	case record.Spent:
		add("its budget is used up for now")
	}
	if record.archiveAway(r) != nil {
		add("its archive cannot be written since %s: %s", record.ArchiveSince.UTC().Format(time.RFC3339), record.ArchiveError)
	}
	if m.o.Catalog.Clock.Off() != 0 {
		add("the clock has jumped, and is not trusted yet")
	}
	return why
}

// dateless reports that a rule has no document that could be due.
func dateless(c *catalog.Collection, r *catalog.Rule, f *forecast.Forecast) []string {
	sum := f.Due.Documents + f.Later.Documents
	for _, d := range f.Days {
		sum += d.Documents
	}
	switch {
	case sum > 0 || c.Count() == 0:
		return nil
	case r.Kind == schema.ByLastWrite:
		return []string{"no document has a time to live"}
	}
	return []string{fmt.Sprintf("no document has a Date in '%s'", r.Index.Parts[0].Path)}
}
