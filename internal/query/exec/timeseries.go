package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/exec/unpack"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// prepareMeasurements is prepare for a time-series collection.
func (x *Executor) prepareMeasurements(c *catalog.Collection, q *Query, adjust func(plan.Node) plan.Node) (*running, error) {
	r := &running{x: x, coll: c, query: q}
	r.readsSortKey()
	var prefixes [][]byte
	if meta, ok := plan.MetaPoint(&q.Query, c.Settings.Timeseries); ok {
		prefixes = measurements.SourcePrefixes(meta)
	}
	snapshot, open, err := x.Catalog.MeasurementView(c, prefixes...)
	if err != nil {
		return nil, err
	}
	r.snapshot = snapshot
	hinted := q.Query
	if s := c.Sharding(); !q.All && s != nil && len(s.Hidden) > 0 {
		hinted.LeavesOut = s.Hides
	}
	r.source = source{coll: c.Buckets(), reader: r.snapshot}
	r.open()
	if q.Held != nil {
		if err := q.Held(); err != nil {
			r.abandon()
			return nil, err
		}
	}
	r.source.loadTimeseriesVisibility(x.Catalog, c)
	visible := r.source.visibility.filter()
	if visible != nil {
		hinted.Filter = match.FilterOf(match.AndOf(q.Filter.Root(), visible))
	}
	if hinted.Hint, err = bucketHint(c, q.Hint); err != nil {
		r.abandon()
		return nil, err
	}
	n, err := plan.Measurements(x.describe(r.source.coll), &hinted, c.Settings.Timeseries)
	if err != nil {
		r.abandon()
		return nil, err
	}
	if adjust != nil {
		all := n
		n = adjust(n)
		if count, ok := n.(*plan.Count); ok && count.Input == nil && (visible != nil || hinted.LeavesOut != nil) {
			n = &plan.Count{Input: all, Skip: count.Skip, Limit: count.Limit}
		}
	}
	r.builder = builder{source: &r.source, env: q.Env, coll: q.Collator, meta: &r.meta, count: c.Count(), open: open}
	if has(n, knowsMeta) {
		q.Env.Meta = r.meta.value
	}
	if q.AllowDiskUse {
		r.builder.spillDir = x.SpillDir
	}
	built, err := r.built(n)
	if err != nil {
		r.abandon()
		return nil, err
	}
	r.first = candidate{node: n, stage: built}
	r.winner, r.runner.candidate = &r.first, &r.first
	return r, nil
}

// filter is the condition for measurements of the first batch to be visible; nil for
// none. Those of later batches are checked by their instants.
func (h *visibility) filter() match.Node {
	if h == nil {
		return nil
	}
	var nodes []match.Node
	for i := range h.bucketRules {
		r := &h.bucketRules[i]
		if r.Filter == nil {
			nodes = append(nodes, match.NewCompare(h.options.TimeField, match.Gt, bson.Date(r.Before(h.now)), nil))
		} else {
			nodes = append(nodes, &match.Nor{Children: []match.Node{r.DueNow(h.options, h.now)}})
		}
	}
	return match.AndOf(nodes...)
}

// bucketHint turns a hint about measurements into one about their buckets.
func bucketHint(c *catalog.Collection, hint bson.Value) (bson.Value, error) {
	for _, ix := range c.Indexes() {
		switch {
		case hint.Type == bson.TypeString && hint.Str() == ix.Name:
		case hint.Type == bson.TypeDocument && bson.CompareDocs(hint.Doc(), ix.Key, nil) == 0:
		default:
			continue
		}
		if ix.Form == nil && !ix.Hidden {
			return bson.Document(new(bson.Builder).Int32("$natural", 1).Finish()), nil
		}
		return bson.String(ix.Name), nil
	}
	return hint, nil
}

// unpack makes the stage of a plan.Unpack.
func (b *builder) unpack(n *plan.Unpack) stage.Stage {
	return unpack.New(n, b.build(n.Input), unpack.Options{
		Env: b.env, Open: b.open, Reader: b.source.coll.NewOpenReader(b.source.reader), SetDue: b.source.setMeasurementDue,
	})
}

// timeseriesCursor is a Cursor over measurements that returns whole buckets, by column,
// if no filter has to be evaluated on their measurements.
type timeseriesCursor struct {
	*Cursor
	u   *unpack.Unpack
	row stage.Row
}

// timeseriesInput returns the input of a pipeline: cur, with column batches if its plan
// only unpacks buckets.
func timeseriesInput(c *catalog.Collection, cur *Cursor) pipeline.Iterator {
	if c == nil || !c.IsTimeseries() {
		return cur
	}
	if u, ok := cur.r.winner.stage.(*unpack.Unpack); ok {
		return &timeseriesCursor{Cursor: cur, u: u}
	}
	return cur
}

// Fields names the time and the meta value.
func (m *timeseriesCursor) Fields() (time, meta string) {
	o := m.r.winner.node.(*plan.Unpack).Options
	return o.TimeField, o.MetaField
}

// NextColumnBatch returns a bucket, or a document if there is none to return
// whole.
func (m *timeseriesCursor) NextColumnBatch(ctx context.Context) (pipeline.ColumnBatch, bson.Doc, error) {
	if err := m.r.coll.Check(); err != nil {
		return nil, nil, err
	}
	m.r.query.Env.Watch(ctx)
	return m.u.NextColumnBatch(ctx, &m.row)
}
