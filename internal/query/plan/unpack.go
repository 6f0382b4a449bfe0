package plan

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Unpack reads the measurements of a time-series collection: those of the
// buckets that its input finds, and those that are in no bucket yet.
type Unpack struct {
	Input   Node // finds buckets
	Options *schema.Timeseries
	// Filter is evaluated on measurements; nil lets all pass. Where Whole is set, all
	// measurements of a bucket that Input finds pass it, if their times are all within
	// From and To.
	Filter match.Node
	Whole  bool
	// Meta is the part of the filter that is on the meta value, with the measurements'
	// paths; nil for none.
	Meta match.Node
	// From and To bound the times, in milliseconds, both inclusive; From is no later
	// than To.
	From, To int64
	// Paths are the fields that are read of a measurement; nil for all.
	Paths []string
	// Order is 1 where measurements are wanted by their times, -1 for the newest
	// first, 0 for any order. Input delivers buckets in that of their beginnings,
	// or of their ends where ByEnd is set.
	Order int
	ByEnd bool
	// Ends asks for one measurement of each group; nil for all. Input delivers
	// buckets of the times wanted first, where it can.
	Ends *Ends
}

// Ends asks for the newest measurement of each group, or the oldest. What groups
// them depends on the meta value alone.
type Ends struct {
	ID     expr.Expr
	Newest bool
}

// Stage is the server's name.
func (*Unpack) Stage() string { return "UNPACK_TS_BUCKET" }

// Inputs is the plan that finds the buckets.
func (n *Unpack) Inputs() []Node { return []Node{n.Input} }

// maxOrderedLimit bounds the limit up to which the measurements of many
// sources are merged by time rather than sorted.
const maxOrderedLimit = 10000

// Measurements plans a query over the measurements of a time-series collection
// whose buckets c describes.
func Measurements(c *Collection, q *Query, o *schema.Timeseries) (Node, error) {
	n := &Unpack{Options: o, From: math.MinInt64, To: math.MaxInt64}
	if and, ok := q.Filter.Root().(*match.Always); ok && !and.True {
		return finish(q, source{node: &EOF{}, sorted: true}), nil
	}
	cs := conjuncts(q.Filter.Root())
	if at := nearOf(cs); at >= 0 {
		return nearest(c, q, o, cs, at)
	}
	var metas, others []match.Node
	for _, p := range cs {
		switch {
		case OnMeta(p, o):
			metas = append(metas, p)
		case !n.boundTime(p, q.Env):
			others = append(others, p)
		}
	}
	if n.From > n.To {
		return finish(q, source{node: &EOF{}, sorted: true}), nil
	}
	n.Meta = join(metas)
	n.Whole = len(others) == 0
	if !MatchesAll(q.Filter) {
		n.Filter = q.Filter.Root()
	}
	n.Paths = unpackedPaths(q, n.Filter)
	bq, err := n.bucketQuery(q)
	if err != nil {
		return nil, err
	}
	if bounds := n.extremes(c, q, others); bounds != nil {
		bq.Filter = match.FilterOf(match.AndOf(append([]match.Node{bq.Filter.Root()}, bounds...)...))
	}
	pinned := slices.ContainsFunc(metas, func(p match.Node) bool {
		cmp, ok := p.(*match.Compare)
		return ok && cmp.Op == match.Eq
	})
	if q.Ends != nil {
		return n.ends(c, q, bq)
	}
	if order := timeOrder(q, o); order != 0 && (pinned || q.Limit > 0 && q.Limit+q.Skip <= maxOrderedLimit) {
		if found, err := n.ordered(c, *bq, order); err != nil || found {
			return finish(q, source{node: n, sorted: true}), err
		}
	}
	plans, err := Candidates(c, bq)
	if err != nil {
		return nil, err
	}
	n.Input = plans[0]
	return finish(q, source{node: n, sorted: q.Sort.IsEmpty() || q.Sort.Natural() != 0}), nil
}

// ends plans a query for the first or last measurements of groups.
func (n *Unpack) ends(c *Collection, q, bq *Query) (Node, error) {
	order := 1
	if q.Ends.Newest {
		order = -1
	}
	found, err := n.ordered(c, *bq, order)
	if err == nil && !found {
		var plans []Node
		if plans, err = Candidates(c, bq); err == nil {
			n.Input = plans[0]
		}
	}
	n.Order, n.ByEnd, n.Ends = 0, false, q.Ends
	return n, err
}

// MetaPoint returns the value that the whole meta value has to equal in all that a
// query finds, or to have as an element where it is an array; false if there is none.
func MetaPoint(q *Query, o *schema.Timeseries) (bson.Value, bool) {
	if q.Collator != nil || o.MetaField == "" {
		return bson.Value{}, false
	}
	for _, p := range conjuncts(q.Filter.Root()) {
		if cmp, ok := p.(*match.Compare); ok && cmp.Op == match.Eq && cmp.FieldPath() == o.MetaField && isPoint(cmp.Value) {
			return cmp.Value, true
		}
	}
	return bson.Value{}, false
}

// ordered plans the buckets in the order of their first or last times; false if that
// takes a sort. An index is better than the order in which buckets are stored, which is
// that of their last times.
func (n *Unpack) ordered(c *Collection, bq Query, order int) (bool, error) {
	for _, side := range []string{"min", "max"} {
		var err error
		if bq.Sort, err = sortkey.Parse(new(bson.Builder).Int32("control."+side+"."+n.Options.TimeField, int32(order)).Finish()); err != nil {
			return false, err
		}
		plans, err := Candidates(c, &bq)
		if err != nil {
			return false, err
		}
		for _, p := range plans {
			_, sorts := p.(*Sort)
			_, scans := p.(*CollScan)
			if sorts || scans && n.Input != nil {
				continue
			}
			n.Input, n.Order, n.ByEnd = p, order, side == "max"
			if !scans {
				return true, nil
			}
		}
	}
	return n.Input != nil, nil
}

// timeOrder returns the direction if the query's sort is by time alone: 1 or -1.
func timeOrder(q *Query, o *schema.Timeseries) int {
	if len(q.Sort.Parts) != 1 || q.Sort.Parts[0].Meta != "" || q.Sort.Parts[0].Path != o.TimeField {
		return 0
	}
	if q.Sort.Parts[0].Descending {
		return -1
	}
	return 1
}

// OnMeta reports whether a condition reads nothing but the meta value, so that it can be
// evaluated on buckets.
func OnMeta(n match.Node, o *schema.Timeseries) bool {
	if o.MetaField == "" || hasExpr(n) {
		return false
	}
	d := match.DependsOn(n)
	return !d.Whole && len(d.Paths) > 0 && !slices.ContainsFunc(d.Paths, func(p string) bool { return !o.IsMeta(p) })
}

// hasExpr reports whether a condition contains an expression, or anything that is not a
// predicate on one value.
func hasExpr(n match.Node) bool {
	switch n := n.(type) {
	case *match.And:
		return slices.ContainsFunc(n.Children, hasExpr)
	case *match.Or:
		return slices.ContainsFunc(n.Children, hasExpr)
	case *match.Nor:
		return slices.ContainsFunc(n.Children, hasExpr)
	case *match.Not:
		return hasExpr(n.Child)
	case *match.GeoNear:
		return true
	case match.Leaf:
		return false
	}
	return true
}

// boundTime narrows the times by a condition, and reports whether that covers the
// condition.
func (n *Unpack) boundTime(p match.Node, env *expr.Env) bool {
	if e, ok := p.(*match.Expr); ok {
		for _, c := range expr.Comparisons(e.Expr, env) {
			if c.Path == n.Options.TimeField && c.Value.Type == bson.TypeDate {
				n.boundAt(timeOps[c.Op], c.Value.Date())
			}
		}
		return false
	}
	if in, ok := p.(*match.In); ok && in.FieldPath() == n.Options.TimeField && len(in.Regexes) == 0 {
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		for _, v := range in.Values {
			if v.Type != bson.TypeDate {
				continue
			}
			lo, hi = min(lo, v.Date()), max(hi, v.Date())
		}
		n.From, n.To = max(n.From, lo), min(n.To, hi)
		return false
	}
	cmp, ok := p.(*match.Compare)
	if !ok || cmp.FieldPath() != n.Options.TimeField || cmp.Value.Type != bson.TypeDate {
		return false
	}
	return n.boundAt(cmp.Op, cmp.Value.Date())
}

// timeOps maps the comparisons of $expr to those of filters.
var timeOps = map[string]match.Op{"$eq": match.Eq, "$lt": match.Lt, "$lte": match.Lte, "$gt": match.Gt, "$gte": match.Gte}

// boundAt narrows the times by a comparison with a time; false if that is the least or
// the greatest time.
func (n *Unpack) boundAt(op match.Op, at int64) bool {
	switch op {
	case match.Eq:
		n.From, n.To = max(n.From, at), min(n.To, at)
	case match.Gte:
		n.From = max(n.From, at)
	case match.Lte:
		n.To = min(n.To, at)
	case match.Gt:
		if at == math.MaxInt64 {
			return false
		}
		n.From = max(n.From, at+1)
	case match.Lt:
		if at == math.MinInt64 {
			return false
		}
		n.To = min(n.To, at-1)
	default:
		return false
	}
	return true
}

// bucketQuery returns the query that finds the buckets.
func (n *Unpack) bucketQuery(q *Query) (*Query, error) {
	var b bson.Builder
	b.Reset(nil)
	b.OpenArray("$and")
	i := 0
	if n.Meta != nil {
		b.Doc(bson.Index(i), n.Options.BucketFilter(match.Serialize(n.Meta)))
		i++
	}
	span := n.Options.MaxSpanSeconds * 1000
	bound := func(side string, from, to int64) {
		if from == math.MinInt64 && to == math.MaxInt64 {
			return
		}
		b.OpenDoc(bson.Index(i)).OpenDoc("control." + side + "." + n.Options.TimeField)
		if from != math.MinInt64 {
			b.Date("$gte", from)
		}
		if to != math.MaxInt64 {
			b.Date("$lte", to)
		}
		b.Close().Close()
		i++
	}
	bound("min", minus(n.From, span), n.To)
	bound("max", n.From, plus(n.To, span))
	b.Close()
	spec := b.Finish()
	if i == 0 {
		spec = bson.Empty
	}
	filter, err := match.Parse(spec, &match.Options{Collator: q.Collator})
	if err != nil {
		return nil, err
	}
	if q.LeavesOut != nil {
		filter = filter.AndOwned(q.LeavesOut)
	}
	return &Query{Filter: filter, Hint: q.Hint, Collation: q.Collation, Collator: q.Collator, NoScan: q.NoScan, NoExpress: true}, nil
}

// BucketQuery returns a query for the buckets that may have measurements which a query
// finds: what its filter says of the meta value and of the time.
func BucketQuery(q *Query, o *schema.Timeseries) (*Query, error) {
	n := &Unpack{Options: o, From: math.MinInt64, To: math.MaxInt64}
	var metas []match.Node
	for _, p := range conjuncts(q.Filter.Root()) {
		if OnMeta(p, o) {
			metas = append(metas, p)
		} else {
			n.boundTime(p, q.Env)
		}
	}
	n.Meta = join(metas)
	b, err := n.bucketQuery(q)
	if err == nil {
		b.Env = q.Env
	}
	return b, err
}

// minus and plus do not change the least and the greatest time.
func minus(t, d int64) int64 {
	if t < math.MinInt64+d {
		return math.MinInt64
	}
	return t - d
}

func plus(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// unpackedPaths returns the top-level fields that the reader, the sort and the filter
// read; nil for all.
func unpackedPaths(q *Query, filter match.Node) []string {
	if q.Paths == nil {
		return nil
	}
	paths := slices.Clone(q.Paths)
	for _, p := range q.Sort.Parts {
		if p.Meta != "" {
			return nil
		}
		paths = append(paths, p.Path)
	}
	if filter != nil {
		d := match.DependsOn(filter)
		if d.Whole {
			return nil
		}
		paths = append(paths, d.Paths...)
	}
	tops := make([]string, 0, len(paths))
	for _, p := range paths {
		top, _, _ := strings.Cut(p, ".")
		if !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	return tops
}

// bucketID formats the first time of buckets as mongod does: as an _id, which has 32
// bits of seconds, with the rest filled up.
func bucketID(at bson.Value, fill byte) bson.Value {
	var id [12]byte
	sec := uint32(0)
	switch {
	case at.Type == bson.TypeDate:
		sec = uint32(min(max(at.Date()/1000, 0), math.MaxUint32))
	case fill != 0: // no end
		sec = math.MaxUint32
	}
	binary.BigEndian.PutUint32(id[:], sec)
	for i := 4; i < len(id); i++ {
		id[i] = fill
	}
	return bson.ObjectID(id)
}

func describeUnpack(b *bson.Builder, n *Unpack) {
	b.String("timeField", n.Options.TimeField)
	if n.Options.MetaField != "" {
		b.String("metaField", n.Options.MetaField)
	}
	b.Int("bucketMaxSpanSeconds", n.Options.MaxSpanSeconds)
	if n.Paths != nil {
		b.Strings("include", n.Paths...)
	}
}
