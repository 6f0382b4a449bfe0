package pipeline

import (
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// ColumnBatch is measurements of one source, in the order of their times, kept by
// column.
type ColumnBatch interface {
	Len() int
	// Doc is a measurement with all fields that are read; valid until the next
	// call of Doc or Key.
	Doc(i int) (bson.Doc, error)
	// Key is a measurement with its meta value alone, and its time where timed is
	// set.
	Key(i int, timed bool) (bson.Doc, error)
	// Column is a field of the measurements from one to another; valid until the
	// next call.
	Column(name string, from, to int) (expr.Column, error)
	// Extreme is the least (sign -1) or the greatest (sign 1) value of a field in
	// the whole batch, where statistics tell it.
	Extreme(name string, sign int) (bson.Value, bool)
}

// ColumnBatches is an iterator that delivers column batches where it can. It is read
// with NextColumnBatch or with Next, not with both.
type ColumnBatches interface {
	Iterator
	// NextColumnBatch returns a batch or, in its place, one document; neither at the
	// end. What it returned before is invalid then.
	NextColumnBatch(ctx context.Context) (ColumnBatch, bson.Doc, error)
	// Fields names the time and, unless it is "", the meta value.
	Fields() (time, meta string)
}

// columnGrouping is how a Group reads column batches.
type columnGrouping struct {
	timed   bool // the groups depend on the time
	columns []accumulatedColumn
	length  int // of the previous run
}

// accumulatedColumn is the input of one accumulator: a field, or a constant if that is "".
type accumulatedColumn struct {
	field    string
	constant bson.Value
	sign     int // of $min or $max
}

// planColumns returns how the group reads column batches, nil if it cannot: its _id
// must not alternate along a batch, and each accumulator must be of one field.
func (g *Group) planColumns(s ColumnBatches) *columnGrouping {
	time, meta := s.Fields()
	p := &columnGrouping{}
	if !p.follows(expr.Serialize(g.ID), time, meta) {
		return nil
	}
	for _, f := range g.Fields {
		path, constant, ok := f.Spec.Column()
		if !ok || strings.Contains(path, ".") || path == meta && meta != "" {
			return nil
		}
		c := accumulatedColumn{field: path, constant: constant}
		switch f.Spec.Name {
		case "$min":
			c.sign = -1
		case "$max":
			c.sign = 1
		}
		p.columns = append(p.columns, c)
	}
	return p
}

// follows reports whether an expression, in printed form, depends on the meta value and
// constants alone, or is monotonic in time, or is a document of such.
func (p *columnGrouping) follows(v bson.Value, time, meta string) bool {
	switch v.Type {
	case bson.TypeString:
		path := strings.TrimPrefix(v.Str(), "$")
		return meta != "" && path != v.Str() && (path == meta || strings.HasPrefix(path, meta+"."))
	case bson.TypeDocument:
		name, arg := v.Doc().First()
		switch {
		case name == "$const":
			return true
		case name == "$dateTrunc" && arg.Type == bson.TypeDocument:
			p.timed = true
			return truncates(arg.Doc(), time)
		case strings.HasPrefix(name, "$"):
			return false
		}
		for e := range v.Doc().Values() {
			if !p.follows(e, time, meta) {
				return false
			}
		}
		return true
	case bson.TypeArray, bson.TypeRegex:
		return false
	}
	return true // a number, or null
}

// truncates reports whether the arguments of a $dateTrunc are the time and constants,
// without a time zone, in which local hours may repeat.
func truncates(args bson.Doc, time string) bool {
	for name, v := range args.All() {
		switch {
		case name == "date":
			if v.Type != bson.TypeString || v.Str() != "$"+time {
				return false
			}
		case name == "timezone" || v.Type != bson.TypeDocument || !v.Doc().Has("$const"):
			return false
		}
	}
	return true
}

// loadColumnBatches reads all column batches of s.
func (w *grouping) loadColumnBatches(ctx context.Context, s ColumnBatches, p *columnGrouping) error {
	for {
		st, d, err := s.NextColumnBatch(ctx)
		if err != nil {
			return err
		}
		if err := w.r.check(ctx); err != nil {
			return err
		}
		switch {
		case st != nil:
			err = w.takeColumnBatch(st, p)
		case d != nil:
			err = w.take(d)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// takeColumnBatch adds measurements to their groups, run by run.
func (w *grouping) takeColumnBatch(st ColumnBatch, p *columnGrouping) error {
	n := st.Len()
	for from := 0; from < n; {
		if w.spill != nil {
			d, err := st.Doc(from)
			if err == nil {
				err = w.take(d)
			}
			if err != nil {
				return err
			}
			from++
			continue
		}
		to, err := w.takeRun(st, from, p)
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// takeRun adds the run of measurements of one group, and returns where the next run
// begins.
func (w *grouping) takeRun(st ColumnBatch, from int, p *columnGrouping) (to int, err error) {
	d, err := st.Key(from, p.timed)
	if err != nil {
		return 0, err
	}
	env := w.env(d)
	defer w.leave()
	id, err := w.g.idOf(env)
	if err != nil {
		return 0, err
	}
	w.key = keystring.Append(w.key[:0], id, false, env.Collator)
	gr := w.groups[string(w.key)]
	if gr == nil {
		if gr, err = w.start(env, id); err != nil {
			return 0, err
		}
	}
	if to = st.Len(); p.timed {
		if to, err = w.runEnd(st, from, p.length); err != nil {
			return 0, err
		}
		p.length = to - from
	}
	whole := from == 0 && to == st.Len()
	w.taken += to - from
	for i, c := range p.columns {
		a := gr.acc[i].(expr.ColumnAccumulator)
		before := a.Size()
		if err := addRun(env, a, st, c, from, to, whole); err != nil {
			return 0, err
		}
		w.bytes += a.Size() - before
	}
	return to, w.room()
}

// runEnd finds the end of the run at from, whose key is current: it tries the length of
// the previous run, then doubles the step, then bisects.
func (w *grouping) runEnd(st ColumnBatch, from, guess int) (int, error) {
	var failed error
	key := slices.Clone(w.key)
	same := func(i int) bool {
		d, err := st.Key(i, true)
		if err != nil {
			failed = err
			return false
		}
		env := w.env(d)
		id, err := w.g.idOf(env)
		if err != nil {
			failed = err
			return false
		}
		w.key = keystring.Append(w.key[:0], id, false, env.Collator)
		return string(w.key) == string(key)
	}
	n := st.Len()
	if to := from + guess; guess > 0 && to < n && same(to-1) && !same(to) && failed == nil {
		return to, nil
	}
	if same(n - 1) {
		return n, failed
	}
	lo, step := from+1, 1
	for lo+step < n && same(lo+step) {
		lo += step
		step *= 2
	}
	hi := min(lo+step, n)
	to := lo + sort.Search(hi-lo, func(i int) bool { return !same(lo + i) })
	return to, failed
}

// addRun adds measurements to one accumulator.
func addRun(env *expr.Env, a expr.ColumnAccumulator, st ColumnBatch, c accumulatedColumn, from, to int, whole bool) error {
	if c.field == "" {
		return a.AddColumn(env, &expr.Constants{Value: c.constant, N: to - from})
	}
	if expr.HasFirst(a) {
		return nil
	}
	if c.sign != 0 && whole {
		if v, ok := st.Extreme(c.field, c.sign); ok {
			return a.AddColumn(env, &expr.Constants{Value: v, N: 1})
		}
	}
	column, err := st.Column(c.field, from, to)
	if err != nil {
		return err
	}
	return a.AddColumn(env, column)
}
