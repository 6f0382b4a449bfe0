package pipeline

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// BucketAuto is {$bucketAuto: {groupBy, buckets, output, granularity}}.
type BucketAuto struct {
	by      expr.Expr
	buckets int64
	fields  []GroupField
	output  bool
	rounds  *granularity // nil: none
}

func parseBucketAuto(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(40240, "The argument to $bucketAuto must be an object, but found type: %s.", arg.Type)
	}
	s := &BucketAuto{}
	for it := arg.Doc().Iter(); it.Next(); {
		if err := s.option(it.Key, it.Value, p); err != nil {
			return nil, err
		}
	}
	if s.by == nil || s.buckets == 0 {
		return nil, mongoerr.New(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.")
	}
	if !s.output {
		f, err := parseGroupField("count", bson.Document(new(bson.Builder).Int32("$sum", 1).Finish()), p.Expr)
		if err != nil {
			return nil, err
		}
		s.fields = []GroupField{f}
	}
	return s, nil
}

func (s *BucketAuto) option(name string, v bson.Value, p *parsing) error {
	var err error
	switch name {
	case "groupBy":
		if !isGroupBy(v) {
			return mongoerr.New(40239, "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found: %s.", v)
		}
		s.by, err = expr.Parse(v, p.Expr)
		return err
	case "buckets":
		if !v.IsNumber() {
			return mongoerr.New(40241, "The $bucketAuto 'buckets' field must be a numeric value, but found type: %s.", v.Type)
		}
		n, ok := bson.ExactInt32(v)
		if !ok {
			return mongoerr.New(40242, "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found %s.", v)
		}
		if n <= 0 {
			return mongoerr.New(40243, "The $bucketAuto 'buckets' field must be greater than 0, but found: %d.", n)
		}
		s.buckets = int64(n)
	case "output":
		if v.Type != bson.TypeDocument {
			return mongoerr.New(40244, "The $bucketAuto 'output' field must be an object, but found type: %s.", v.Type)
		}
		s.output = !v.Doc().IsEmpty()
		for it := v.Doc().Iter(); it.Next(); {
			f, err := parseGroupField(it.Key, it.Value, p.Expr)
			if err != nil {
				return err
			}
			s.fields = append(s.fields, f)
		}
	case "granularity":
		if v.Type != bson.TypeString {
			return mongoerr.New(40261, "The $bucketAuto 'granularity' field must be a string, but found type: %s.", v.Type)
		}
		if s.rounds = granularities[v.Str()]; s.rounds == nil {
			return mongoerr.New(40257, "Unknown rounding granularity '%s'", v.Str())
		}
	default:
		return mongoerr.New(40245, "Unrecognized option to $bucketAuto: %s.", name)
	}
	return nil
}

// Name is the stage's name.
func (s *BucketAuto) Name() string { return "$bucketAuto" }

// Serialize is the specification in full.
func (s *BucketAuto) Serialize() bson.Value {
	b := new(bson.Builder).Value("groupBy", expr.Serialize(s.by)).Int("buckets", s.buckets)
	if s.rounds != nil {
		b.String("granularity", s.rounds.name)
	}
	b.OpenDoc("output")
	for _, f := range s.fields {
		b.Value(f.Name, f.Spec.Serialize())
	}
	return bson.Document(b.Close().Finish())
}

// Open sorts all documents by groupBy before it delivers the first bucket.
func (s *BucketAuto) Open(in Iterator, r *Run) (Iterator, error) {
	return &bucketing{s: s, in: in, r: r, rows: r.sorter(0)}, nil
}

// bucketing runs a BucketAuto.
type bucketing struct {
	s      *BucketAuto
	in     Iterator
	r      *Run
	rows   *extsort.Sorter
	loaded bool
	size   int64 // documents that a bucket should have
	n      int64 // buckets begun

	ahead bson.Doc   // first document of the next bucket, or nil
	value bson.Value // its groupBy
	max   bson.Value // of the bucket before
}

func (b *bucketing) Close() {
	b.in.Close()
	b.rows.Close()
}

func (b *bucketing) key(d bson.Doc) (bson.Value, error) {
	v, err := b.s.by.Eval(b.r.Env.WithRoot(d))
	if err != nil {
		return v, err
	}
	if v.IsMissing() {
		v = bson.Null
	}
	if b.s.rounds != nil {
		err = b.s.rounds.check(v)
	}
	return v, err
}

func (b *bucketing) load(ctx context.Context) error {
	var key []byte
	docs := int64(0)
	for {
		d, err := b.in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		if err := b.r.check(ctx); err != nil {
			return err
		}
		v, err := b.key(d)
		if err != nil {
			return err
		}
		key = keystring.Append(key[:0], v, false, b.r.Env.Collator)
		if err := b.rows.Add(key, nil, d); err != nil {
			return memoryError(err, "$bucketAuto")
		}
		docs++
	}
	if err := b.rows.Sort(); err != nil {
		return err
	}
	b.size = max(int64(math.Round(float64(docs)/float64(b.s.buckets))), 1)
	return b.advance()
}

// advance reads the next document ahead.
func (b *bucketing) advance() error {
	row, ok, err := b.rows.Next()
	if err != nil {
		return err
	}
	if b.ahead = nil; ok {
		b.ahead = bson.Doc(row.Doc).Clone()
		b.value, err = b.key(b.ahead)
	}
	return err
}

func (b *bucketing) Next(ctx context.Context) (bson.Doc, error) {
	if !b.loaded {
		b.loaded = true
		if err := b.load(ctx); err != nil {
			return nil, err
		}
	}
	if b.ahead == nil || b.n == b.s.buckets {
		return nil, nil
	}
	b.n++
	return b.bucket(ctx)
}

// bucket gathers the next bucket.
func (b *bucketing) bucket(ctx context.Context) (bson.Doc, error) {
	lo := b.value.Clone()
	if b.s.rounds != nil {
		if lo = b.s.rounds.down(b.value); b.n > 1 {
			lo = b.max
		}
	}
	g := &group{acc: make([]expr.Accumulator, len(b.s.fields))}
	for i, f := range b.s.fields {
		var err error
		if g.acc[i], err = f.Spec.New(b.r.Env.WithRoot(bson.Empty), bson.Null); err != nil {
			return nil, err
		}
	}
	hi := b.value
	for i := int64(0); b.ahead != nil && (i < b.size || b.n == b.s.buckets); i++ {
		if err := b.r.check(ctx); err != nil {
			return nil, err
		}
		var err error
		if hi, err = b.take(g); err != nil {
			return nil, err
		}
	}
	hi, err := b.boundary(ctx, g, hi)
	if err != nil {
		return nil, err
	}
	b.max = hi.Clone()
	return b.result(g, lo, hi)
}

// take adds the document ahead to a bucket, and returns its groupBy.
func (b *bucketing) take(g *group) (bson.Value, error) {
	v := b.value
	env := b.r.Env.WithRoot(b.ahead)
	for _, a := range g.acc {
		if err := a.Add(env); err != nil {
			return v, err
		}
	}
	return v, b.advance()
}

// boundary returns the upper end of a bucket whose greatest value is hi; further
// documents below it are added to the bucket.
func (b *bucketing) boundary(ctx context.Context, g *group, hi bson.Value) (bson.Value, error) {
	coll := b.r.Env.Collator
	joins := func(v bson.Value) bool { return bson.CompareWith(hi, v, coll) == 0 }
	var up bson.Value
	if b.s.rounds != nil {
		up = b.s.rounds.up(hi)
		joins = func(v bson.Value) bool { return bson.CompareWith(up, v, coll) > 0 }
	}
	for b.ahead != nil && joins(b.value) {
		if err := b.r.check(ctx); err != nil {
			return hi, err
		}
		if _, err := b.take(g); err != nil {
			return hi, err
		}
	}
	switch {
	case b.s.rounds == nil && b.ahead != nil:
		return b.value, nil
	case b.s.rounds == nil:
		return hi, nil
	case bson.IsZero(up) && b.ahead != nil:
		return b.s.rounds.down(b.value), nil
	}
	return up, nil
}

func (b *bucketing) result(g *group, lo, hi bson.Value) (bson.Doc, error) {
	out := new(bson.Builder).OpenDoc("_id").Value("min", lo).Value("max", hi).Close()
	for i, a := range g.acc {
		v, err := a.Result()
		if err != nil {
			return nil, err
		}
		if v.IsMissing() {
			v = bson.Null
		}
		out.Value(b.s.fields[i].Name, v)
	}
	return out.Finish(), nil
}
