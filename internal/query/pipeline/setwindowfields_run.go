package pipeline

import (
	"context"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// Open sorts the documents into partitions and runs the functions over each.
func (s *SetWindowFields) Open(in Iterator, r *Run) (Iterator, error) {
	w := &windowing{s: s, r: r, rows: newPartitions(s, in, r), memory: r.Env.Hold()}
	w.used.Functions = make([]int64, len(s.Outputs))
	for _, o := range s.Outputs {
		w.used.Paths = append(w.used.Paths, o.Path)
	}
	return w, nil
}

// windowing runs a SetWindowFields.
type windowing struct {
	s         *SetWindowFields
	r         *Run
	rows      *partitions
	current   *partition // nil before the first and after the last
	functions []windowFunction
	next      int // the document of current that comes next
	values    []bson.Value
	buf       []byte
	memory    memory.Holding // of the functions

	used Windowed
}

// Windowed is what a $setWindowFields held at the most, for explain.
type Windowed struct {
	Paths     []string // of the outputs
	Functions []int64  // bytes of each
	Total     int64    // bytes, with the documents
	Spilled   bool
}

// Windowed is nil for any other stage.
func (s *StageStats) Windowed() *Windowed {
	if w, ok := s.it.(*windowing); ok {
		return &w.used
	}
	return nil
}

// windowedCopies is the number of copies of an output in memory until it is in its
// document.
const windowedCopies = 3

// windowedBytes is the fixed memory of a function.
const windowedBytes = 64

// note updates the peaks.
func (u *Windowed) note(docs *extsort.List, functions []windowFunction) {
	total := int64(docs.Bytes())
	for i, f := range functions {
		n := int64(f.size()) + windowedBytes
		u.Functions[i] = max(u.Functions[i], n)
		total += n
	}
	u.Total = max(u.Total, total)
	u.Spilled = u.Spilled || docs.Spilled()
}

// Close releases the partition.
func (w *windowing) Close() {
	w.rows.Close()
	if w.current != nil {
		w.current.docs.Close()
	}
	w.current, w.functions = nil, nil
	w.memory.Release()
}

func (w *windowing) Next(ctx context.Context) (bson.Doc, error) {
	for {
		if w.current == nil {
			if done, err := w.enter(ctx); done || err != nil {
				return nil, err
			}
		}
		d, err := w.current.at(ctx, w.next)
		if err != nil {
			return nil, err
		}
		if d != nil {
			return w.output(ctx, d)
		}
		if err := w.current.docs.Close(); err != nil {
			return nil, err
		}
		w.current = nil
	}
}

// enter starts the next partition.
func (w *windowing) enter(ctx context.Context) (done bool, err error) {
	if w.current, err = w.rows.open(ctx); err != nil || w.current == nil {
		return true, err
	}
	w.next = 0
	w.functions = w.functions[:0]
	for i := range w.s.Outputs {
		f, err := w.s.Outputs[i].start(w.current, w.r.Env.WithRoot(bson.Empty))
		if err != nil {
			return false, err
		}
		w.functions = append(w.functions, f)
	}
	return false, nil
}

// output is document d with the outputs for it.
func (w *windowing) output(ctx context.Context, d bson.Doc) (bson.Doc, error) {
	w.values = w.values[:0]
	keep, held, made := w.next+1, 0, 0
	for _, f := range w.functions {
		v, err := f.at(ctx, w.next)
		if err != nil {
			return nil, err
		}
		w.values = append(w.values, v)
		made += len(v.Data)
		keep = min(keep, f.needs())
		held += f.size()
	}
	if held > extsort.MaxMemory {
		return nil, mongoerr.New(5414201, "Exceeded memory limit in $setWindowFields, used %d bytes but max allowed is %d bytes", held, extsort.MaxMemory)
	}
	if err := w.memory.Set(held + windowedCopies*made); err != nil {
		return nil, err
	}
	if w.r.Stats != nil {
		w.used.note(w.current.docs, w.functions)
	}
	w.next++
	if w.s.into != nil {
		b := new(bson.Builder)
		for i, v := range w.values {
			b.Value(strconv.Itoa(i), v)
		}
		w.r.Env.SetVar(w.s.slot, bson.Document(b.Finish()))
		var err error
		if w.buf, err = w.s.into.Append(w.buf[:0], w.r.Env, d); err != nil {
			return nil, err
		}
		d = w.buf
	}
	w.current.docs.Release(keep)
	return d, nil
}
