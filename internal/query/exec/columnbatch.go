package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// timeseriesCursor is a Cursor over measurements that delivers whole buckets, by
// column, where the filter leaves nothing to check in them.
type timeseriesCursor struct {
	*Cursor
	u   *unpack
	row Row
}

// timeseriesInput is what a pipeline reads: cur, with column batches where its plan does
// nothing but unpack buckets.
func timeseriesInput(c *catalog.Collection, cur *Cursor) pipeline.Iterator {
	if c == nil || !c.IsTimeseries() {
		return cur
	}
	if u, ok := cur.r.winner.stage.(*unpack); ok {
		return &timeseriesCursor{Cursor: cur, u: u}
	}
	return cur
}

// Fields names the time and the meta value.
func (m *timeseriesCursor) Fields() (time, meta string) {
	return m.u.node.Options.TimeField, m.u.node.Options.MetaField
}

// NextColumnBatch returns a bucket, or a document where there is none to return
// whole.
func (m *timeseriesCursor) NextColumnBatch(ctx context.Context) (pipeline.ColumnBatch, bson.Doc, error) {
	if err := m.r.coll.Check(); err != nil {
		return nil, nil, err
	}
	m.r.query.Env.Watch(ctx)
	u := m.u
	for works := 0; ; works++ {
		if works%ctxEvery == ctxEvery-1 && ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if u.rows == nil && !u.over && (u.filter == nil || u.node.Whole) {
			st, err := u.nextBucketColumns(ctx, &m.row)
			if st != nil || err != nil {
				return st, nil, err
			}
			continue
		}
		if u.rows == nil && u.over && len(u.open) > 0 && len(u.ms) == 0 && (u.filter == nil || u.node.Whole) {
			st, err := u.nextOpenColumns()
			if st != nil || err != nil {
				return st, nil, err
			}
			continue
		}
		state, err := u.Work(ctx, &m.row)
		if err != nil || state == EOF {
			return nil, nil, err
		}
		if state == Advanced {
			return nil, m.row.Doc, nil
		}
	}
}

// nextBucketColumns takes the next bucket from below; nil if there is none yet, or it
// has none within the times that are asked for.
func (s *unpack) nextBucketColumns(ctx context.Context, row *Row) (pipeline.ColumnBatch, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return nil, err
	}
	if state != Advanced {
		s.over = state == EOF
		s.stats.Count(NeedTime)
		return nil, nil
	}
	b, err := timeseries.Open(row.Doc, s.node.Options)
	if err != nil {
		return nil, corrupt(err)
	}
	st := &s.packed
	if st.columns == nil {
		st.columns = map[string]*batchColumn{}
	}
	st.s, st.b, st.rows, st.from, st.to = s, b, nil, 0, b.Count
	st.number++
	if b.Start < s.node.From || b.Last > s.node.To {
		times := st.slot(s.node.Options.TimeField)
		if st.from, st.to, err = b.Between(s.node.From, s.node.To, &times.Series); err != nil {
			return nil, corrupt(err)
		}
		times.of = st.number
	}
	n := int64(st.to - st.from)
	s.stats.DocsExamined += n
	s.stats.Works += n
	s.stats.Advanced += n
	if n <= 0 {
		return nil, nil
	}
	return st, nil
}

// nextOpenColumns takes the open measurements of the next source; nil if it has none
// within the times that are asked for.
func (s *unpack) nextOpenColumns() (pipeline.ColumnBatch, error) {
	src := &s.open[0]
	s.open = s.open[1:]
	ms, err := s.reader.Read(src, s.node.From, s.node.To)
	if err != nil {
		return nil, err
	}
	n := int64(len(ms))
	s.stats.DocsExamined += n
	s.stats.Works += n
	s.stats.Advanced += n
	if n == 0 {
		return nil, nil
	}
	t := &s.packed
	if t.columns == nil {
		t.columns = map[string]*batchColumn{}
	}
	t.number++
	return &openColumns{columnMemory: &t.columnMemory, o: s.node.Options, meta: src.Meta, ms: ms}, nil
}

// columnMemory is memory for columns.
type columnMemory struct {
	number  int // of the batch at hand
	columns map[string]*batchColumn
	part    timeseries.Series
	builder bson.Builder
	buf     []byte
}

// openColumns is a column batch of the open measurements of a source.
type openColumns struct {
	*columnMemory
	o    *schema.Timeseries
	meta bson.Value
	ms   []timeseries.Measurement
}

func (t *openColumns) Len() int                               { return len(t.ms) }
func (t *openColumns) Doc(i int) (bson.Doc, error)            { return t.ms[i].Doc, nil }
func (t *openColumns) Extreme(string, int) (bson.Value, bool) { return bson.Value{}, false }

func (t *openColumns) Key(i int, timed bool) (bson.Doc, error) {
	t.builder.Reset(t.buf[:0])
	if timed {
		t.builder.Date(t.o.TimeField, t.ms[i].Time)
	}
	if t.o.MetaField != "" && t.o.MetaField != t.o.TimeField {
		t.builder.Value(t.o.MetaField, t.meta)
	}
	t.buf = t.builder.Finish()
	return t.buf, nil
}

func (t *openColumns) Column(name string, from, to int) (expr.Column, error) {
	c := t.slot(name)
	if c.of != t.number {
		c.Gather(len(t.ms), func(i int) bson.Value { return t.ms[i].Doc.Lookup(name) })
		c.of = t.number
	}
	t.part.Part(&c.Series, from, to)
	return &t.part, nil
}

// bucketColumns is a column batch of a bucket, or a part of it. A column is unpacked
// when it is asked for.
type bucketColumns struct {
	b        *timeseries.Bucket
	s        *unpack
	from, to int
	rows     *timeseries.Rows // all fields that are read; nil until needed
	columnMemory
}

// batchColumn is a column of the batch with number of, and memory for the next one's.
type batchColumn struct {
	timeseries.Series
	of int
}

func (t *bucketColumns) Len() int { return t.to - t.from }

func (t *bucketColumns) Doc(i int) (bson.Doc, error) {
	if t.rows == nil {
		var err error
		if t.rows, err = t.b.Rows(t.s.wants()); err != nil {
			return nil, corrupt(err)
		}
	}
	return t.rows.Doc(t.from + i), nil
}

func (t *bucketColumns) Key(i int, timed bool) (bson.Doc, error) {
	t.builder.Reset(t.buf[:0])
	o := t.s.node.Options
	if timed {
		times, err := t.column(o.TimeField)
		if err != nil {
			return nil, err
		}
		t.builder.Value(o.TimeField, times.At(t.from+i))
	}
	if o.MetaField != "" && o.MetaField != o.TimeField {
		t.builder.Value(o.MetaField, t.b.Meta)
	}
	t.buf = t.builder.Finish()
	return t.buf, nil
}

func (t *columnMemory) slot(name string) *batchColumn {
	c := t.columns[name]
	if c == nil {
		c = &batchColumn{}
		t.columns[name] = c
	}
	return c
}

func (t *bucketColumns) column(name string) (*timeseries.Series, error) {
	c := t.slot(name)
	if c.of != t.number {
		if err := t.b.Series(name, &c.Series); err != nil {
			return nil, corrupt(err)
		}
		c.of = t.number
	}
	return &c.Series, nil
}

func (t *bucketColumns) Column(name string, from, to int) (expr.Column, error) {
	c, err := t.column(name)
	if err != nil {
		return nil, err
	}
	t.part.Part(c, t.from+from, t.from+to)
	return &t.part, nil
}

// Extreme is what control.min or control.max says, where that is the value of
// one measurement: not for documents and arrays, nor for text, which a
// collation orders in another way, nor for the least time, which control.min
// rounds.
func (t *bucketColumns) Extreme(name string, sign int) (bson.Value, bool) {
	if t.from != 0 || t.to != t.b.Count || name == t.s.node.Options.TimeField && sign < 0 {
		return bson.Value{}, false
	}
	stats := t.b.Max
	if sign < 0 {
		stats = t.b.Min
	}
	v := stats.Lookup(name)
	return v, v.IsNumber() || v.Type == bson.TypeDate
}
