package expire

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Report is what $expiryStats answers for a collection: one document for each
// TTL index, and for the collection's own expireAfterSeconds. What is due, and
// when, comes from the indexes alone. c may be nil.
func (m *Monitor) Report(ctx context.Context, c *catalog.Collection) ([]bson.Doc, error) {
	if c == nil {
		return nil, nil
	}
	var docs []bson.Doc
	for _, ix := range c.Indexes() {
		var r *schema.Rule
		if ix.Records {
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
		b.Strings("skipped", fmt.Sprintf("a special index ('%s') has no order of dates", ix.Plugin))
		return b.Finish(), nil
	}
	b.String("kind", r.Kind.String()).Int("expireAfterSeconds", r.Seconds)
	visibility := schema.Deferred
	if r.Settings.Visibility == schema.Immediate {
		visibility = schema.Immediate
	}
	b.String("visibility", string(visibility)).Bool("paused", r.Settings.Paused)
	if !ix.Ready {
		b.Strings("skipped", "the index is being built")
		return b.Finish(), nil
	}
	in := &catalog.Rule{Rule: r, Index: ix}
	now := m.o.Catalog.Clock.Judged()
	f, err := m.o.Exec.FromIndex(ctx, c, in, now)
	if err != nil {
		return nil, err
	}
	name := ix.Name
	if r.Kind == schema.ByID {
		name = ""
	}
	record := m.Status(c, name)
	if why := m.skipped(c, in, f, record, now); len(why) > 0 {
		b.Strings("skipped", why...)
	}
	f.Append(&b)
	lag := int64(0)
	if f.Due.Documents > 0 {
		lag = (now - f.Oldest) / 1000
	}
	b.Int("lagSeconds", lag)
	appendRecord(&b, record)
	if c.WindowedBy(in) {
		b.Int("unswept", c.Unswept())
	}
	return b.Finish(), nil
}

func appendRecord(b *bson.Builder, r Record) {
	removed := func(r Removed) {
		b.Int("documents", r.Documents).Int("bytes", r.Bytes).Int("keys", r.Keys)
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

// skipped says what keeps a rule from removing documents, nil for nothing.
func (m *Monitor) skipped(c *catalog.Collection, r *catalog.Rule, f *exec.Forecast, record Record, now int64) (why []string) {
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if !m.params.Enabled.Load() {
		add("ttlMonitorEnabled is false")
	}
	if m.o.Dispatcher.Gate.Locks() > 0 {
		add("writes are locked (fsync)")
	}
	if r.Settings.Paused {
		add("paused")
	}
	if at := time.UnixMilli(now); !r.Settings.Window.Open(at) {
		add("outside of its window, which opens at %s", r.Settings.Window.Opens(at).UTC().Format(time.RFC3339))
	}
	if record.Spent && f.Due.Documents > 0 {
		add("its budget is spent for the moment")
	}
	if m.o.Catalog.Clock.Off() != 0 {
		add("the clock has jumped, and is not believed yet")
	}
	sum := f.Due.Documents + f.Later.Documents
	for _, d := range f.Days {
		sum += d.Documents
	}
	if sum == 0 && c.Count() > 0 {
		switch r.Kind {
		case schema.ByLastWrite:
			add("no document has a time to live")
		default:
			add("no document has a Date in '%s'", r.Index.Parts[0].Path)
		}
	}
	return why
}
