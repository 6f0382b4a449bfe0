package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// bucketSpec is {$bucket: {groupBy, boundaries, default, output}}, parsed.
type bucketSpec struct {
	by, output bson.Value
	boundaries []bson.Value
	rest       bson.Value // default
}

// parseBucket converts $bucket to a $group and a $sort.
func parseBucket(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(40201, "Argument to $bucket stage must be an object, but found type: %s.", arg.Type)
	}
	var b bucketSpec
	for it := arg.Doc().Iter(); it.Next(); {
		if err := b.option(it.Key, it.Value, p); err != nil {
			return nil, err
		}
	}
	if b.by.IsMissing() || b.boundaries == nil {
		return nil, mongoerr.New(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")
	}
	if err := b.checkDefault(p.Collator); err != nil {
		return nil, err
	}
	g, err := parseGroup(bson.Document(b.group()), p)
	if err != nil {
		return nil, err
	}
	s, err := parseSort(bson.Document(new(bson.Builder).Int32("_id", 1).Finish()), p)
	if err != nil {
		return nil, err
	}
	g.(*Group).engine.handsOver = true
	return &sequence{name: "$bucket", arg: arg, stages: []Stage{g, s}}, nil
}

func (b *bucketSpec) option(name string, v bson.Value, p *parsing) error {
	switch name {
	case "groupBy":
		if !isGroupBy(v) {
			return mongoerr.New(40202, "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: %s.", v)
		}
		b.by = v
	case "boundaries":
		if v.Type != bson.TypeArray {
			return mongoerr.New(40200, "The $bucket 'boundaries' field must be an array, but found type: %s.", v.Type)
		}
		return b.parseBoundaries(v, p)
	case "default":
		e, err := expr.Parse(v, p.reducing())
		if err != nil {
			return err
		}
		c, ok := expr.Constant(e)
		if !ok {
			return mongoerr.New(40195, "The $bucket 'default' field must be a constant expression, but found: %s.", v)
		}
		b.rest = c
		if c.IsMissing() {
			b.rest = bson.Null
		}
	case "output":
		if v.Type != bson.TypeDocument {
			return mongoerr.New(40196, "The $bucket 'output' field must be an object, but found type: %s.", v.Type)
		}
		b.output = v
	default:
		return mongoerr.New(40197, "Unrecognized option to $bucket: %s.", name)
	}
	return nil
}

// isGroupBy reports whether v is an expression, or the path of a field.
func isGroupBy(v bson.Value) bool {
	return v.Type == bson.TypeDocument || v.Type == bson.TypeString && v.Str() != "" && v.Str()[0] == '$'
}

func (b *bucketSpec) parseBoundaries(v bson.Value, p *parsing) error {
	b.boundaries = []bson.Value{}
	for e := range v.Doc().Values() {
		parsed, err := expr.Parse(e, p.reducing())
		if err != nil {
			return err
		}
		c, ok := expr.Constant(parsed)
		if !ok {
			return mongoerr.New(40191, "The $bucket 'boundaries' field must be an array of constant values, but found value: %s.", e)
		}
		b.boundaries = append(b.boundaries, c)
	}
	if len(b.boundaries) < 2 {
		return mongoerr.New(40192, "The $bucket 'boundaries' field must have at least 2 values, but found %d value(s).", len(b.boundaries))
	}
	for i, hi := range b.boundaries[1:] {
		lo := b.boundaries[i]
		if lo.Type.Class() != hi.Type.Class() {
			return mongoerr.New(40193, "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types %s and %s.", lo.Type, hi.Type)
		}
		if bson.CompareWith(lo, hi, p.Collator) >= 0 {
			return mongoerr.New(40194, "The 'boundaries' option to $bucket must be sorted, but elements %d and %d are not in ascending order (%s is not less than %s).", i, i+1, lo, hi)
		}
	}
	return nil
}

// checkDefault checks that the default is outside the boundaries.
func (b *bucketSpec) checkDefault(coll bson.Collator) error {
	lo, hi := b.boundaries[0], b.boundaries[len(b.boundaries)-1]
	if b.rest.IsMissing() || b.rest.Type.Class() != lo.Type.Class() {
		return nil
	}
	if bson.CompareWith(b.rest, lo, coll) >= 0 && bson.CompareWith(b.rest, hi, coll) < 0 {
		return mongoerr.New(40199, "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.")
	}
	return nil
}

// group is the specification of the $group: its _id is a $switch over the
// boundaries.
func (b *bucketSpec) group() bson.Doc {
	g := new(bson.Builder).OpenDoc("_id").OpenDoc("$switch").OpenArray("branches")
	for i, hi := range b.boundaries[1:] {
		lo := b.boundaries[i]
		g.OpenDoc(bson.Index(i)).OpenDoc("case").OpenArray("$and")
		compare(g, "0", "$gte", b.by, lo)
		compare(g, "1", "$lt", b.by, hi)
		g.Close().Close()
		g.OpenDoc("then").Value("$literal", lo).Close().Close()
	}
	g.Close()
	if !b.rest.IsMissing() {
		g.OpenDoc("default").Value("$literal", b.rest).Close()
	}
	g.Close().Close()
	if b.output.IsMissing() {
		return g.OpenDoc("count").Int32("$sum", 1).Close().Finish()
	}
	return g.Fields(b.output.Doc()).Finish()
}

func compare(b *bson.Builder, name, op string, e, v bson.Value) {
	b.OpenDoc(name).OpenArray(op).Value("0", e).OpenDoc("1").Value("$literal", v).Close().Close().Close()
}
