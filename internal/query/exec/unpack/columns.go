package unpack

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// NextColumnBatch returns a bucket or the open measurements of a source, or a document
// if there is nothing to return whole; neither at the end. row is memory for a row.
func (s *Unpack) NextColumnBatch(ctx context.Context, row *stage.Row) (pipeline.ColumnBatch, bson.Doc, error) {
	for works := 0; ; works++ {
		if works%stage.CtxEvery == stage.CtxEvery-1 && ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if s.rows == nil && !s.over && (s.filter == nil || s.node.Whole) {
			st, err := s.nextBucketColumns(ctx, row)
			if st != nil || err != nil {
				return st, nil, err
			}
			continue
		}
		if s.rows == nil && s.over && len(s.open) > 0 && len(s.ms) == 0 && (s.filter == nil || s.node.Whole) {
			st, err := s.nextOpenColumns()
			if st != nil || err != nil {
				return st, nil, err
			}
			continue
		}
		state, err := s.Work(ctx, row)
		if err != nil || state == stage.EOF {
			return nil, nil, err
		}
		if state == stage.Advanced {
			return nil, row.Doc, nil
		}
	}
}

// nextBucketColumns reads the next bucket from below; nil if there is none yet, or it
// has no measurements within the query's times.
func (s *Unpack) nextBucketColumns(ctx context.Context, row *stage.Row) (pipeline.ColumnBatch, error) {
	b, err := s.bucketBelow(ctx, row)
	if err != nil {
		return nil, err
	}
	if b == nil {
		s.stats.Count(stage.NeedTime)
		return nil, nil
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

// nextOpenColumns reads the open measurements of the next source; nil if it has none
// within the query's times.
func (s *Unpack) nextOpenColumns() (pipeline.ColumnBatch, error) {
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
	number  int // of the current batch
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
// when it is first used.
type bucketColumns struct {
	b        *timeseries.Bucket
	s        *Unpack
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
