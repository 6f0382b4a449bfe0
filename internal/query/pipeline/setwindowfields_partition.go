package pipeline

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// partitions returns the documents of a $setWindowFields, one partition after the
// other, each in the order of the sort.
type partitions struct {
	s      *SetWindowFields
	in     Iterator
	r      *Run
	sorter *extsort.Sorter // nil: one partition, in input order
	loaded bool
	ahead  extsort.Row // the next document, if there is one
	has    bool
	key    []byte // of the partition being read
}

func newPartitions(s *SetWindowFields, in Iterator, r *Run) *partitions {
	p := &partitions{s: s, in: in, r: r}
	if s.By != nil || !s.Sort.IsEmpty() {
		p.sorter = r.sorter(0)
	}
	return p
}

// Close releases the documents.
func (p *partitions) Close() {
	p.in.Close()
	if p.sorter != nil {
		p.sorter.Close()
	}
}

func (p *partitions) load(ctx context.Context) error {
	p.loaded = true
	if p.sorter == nil {
		return p.step(ctx)
	}
	keys := sortkey.NewGenerator(p.s.Sort, p.r.Env.Collator, p.r.Env.Meta)
	var key []byte
	for {
		d, err := p.in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		if key, err = p.partitionOf(key[:0], d); err != nil {
			return err
		}
		by := len(key)
		if key, err = keys.Append(key, d); err != nil {
			return err
		}
		if err := p.sorter.Add(key, key[:by], d); err != nil {
			return memoryError(err, "Sort")
		}
	}
	if err := p.sorter.Sort(); err != nil {
		return err
	}
	return p.step(ctx)
}

// partitionOf appends the key of the partition that d belongs to.
func (p *partitions) partitionOf(dst []byte, d bson.Doc) ([]byte, error) {
	if p.s.By == nil {
		return dst, nil
	}
	v, err := p.s.By.Eval(p.r.Env.WithRoot(d))
	switch {
	case err != nil:
		return dst, err
	case v.IsMissing():
		v = bson.Null
	}
	if err := partitionable(v); err != nil {
		return dst, err
	}
	return keystring.Append(dst, v, false, p.r.Env.Collator), nil
}

func partitionable(v bson.Value) error {
	if v.Type == bson.TypeArray {
		return mongoerr.New(mongoerr.TypeMismatch, "An expression used to partition cannot evaluate to value of type array")
	}
	return nil
}

// step reads the next document ahead.
func (p *partitions) step(ctx context.Context) (err error) {
	if p.sorter != nil {
		p.ahead, p.has, err = p.sorter.Next()
		return err
	}
	d, err := p.in.Next(ctx)
	p.ahead, p.has = extsort.Row{Doc: d}, d != nil
	return err
}

// open begins the next partition, nil at the end.
func (p *partitions) open(ctx context.Context) (*partition, error) {
	if !p.loaded {
		if err := p.load(ctx); err != nil {
			return nil, err
		}
	}
	if !p.has {
		return nil, nil
	}
	p.key = append(p.key[:0], p.ahead.Record...)
	docs := extsort.NewList(p.r.SpillDir)
	docs.Hold(p.r.Env.Hold())
	return &partition{from: p, docs: docs}, nil
}

// partition is the current partition. Documents are read on demand, and kept until they
// are released.
type partition struct {
	from *partitions
	docs *extsort.List
	done bool // all have been read
}

// at returns document i, nil after the last.
func (p *partition) at(ctx context.Context, i int) (bson.Doc, error) {
	for p.docs.Len() <= i {
		if p.done {
			return nil, nil
		}
		if err := p.read(ctx); err != nil {
			return nil, err
		}
	}
	return p.docs.At(i)
}

func (p *partition) read(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := p.from
	if !f.has || !bytes.Equal(f.ahead.Record, f.key) {
		p.done = true
		return nil
	}
	if err := p.docs.Append(f.ahead.Doc, extsort.MaxMemory); err != nil {
		if errors.Is(err, extsort.ErrMemory) {
			return mongoerr.New(5643011, "Exceeded max memory. Set 'allowDiskUse: true' to spill to disk")
		}
		return err
	}
	return f.step(ctx)
}
