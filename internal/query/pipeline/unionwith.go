package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// UnionWith is {$unionWith: {coll, pipeline}}.
type UnionWith struct {
	arg  bson.Value
	from *Foreign
}

func parseUnionWith(arg bson.Value, p *parsing) (Stage, error) {
	u := &UnionWith{arg: arg}
	ns := Namespace{DB: p.DB}
	var list []bson.Value
	switch arg.Type {
	case bson.TypeString:
		ns.Coll = arg.Str()
	case bson.TypeDocument:
		v, err := readSpec("$unionWith", arg.Doc(), stringField("coll"), arrayField("pipeline"), anyField("db"))
		if err != nil {
			return nil, err
		}
		if !v[1].IsMissing() {
			list = v[1].Doc().Slice()
		}
		if v[0].IsMissing() {
			if !startsWith(list, "$documents") {
				return nil, mongoerr.New(mongoerr.FailedToParse, "$unionWith stage without explicit collection must have a pipeline with $documents as first stage")
			}
			u.from, err = p.subPipeline(ns, list, nil)
			return u, err
		}
		ns.Coll = v[0].Str()
	default:
		return nil, mongoerr.New(mongoerr.FailedToParse, "the $unionWith stage specification must be an object or string, but found %s", arg.Type)
	}
	if ns.Coll == "" || ns.Coll[0] == '.' || strings.IndexByte(ns.Coll, 0) >= 0 {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", ns)
	}
	var err error
	u.from, err = p.subPipeline(ns, list, nil)
	return u, err
}

// startsWith reports whether the first stage of a pipeline has that name.
func startsWith(list []bson.Value, name string) bool {
	if len(list) == 0 || list[0].Type != bson.TypeDocument {
		return false
	}
	first, _ := list[0].Doc().First()
	return first == name
}

// Name is the stage's name.
func (u *UnionWith) Name() string { return "$unionWith" }

// Serialize is the collection and its pipeline.
func (u *UnionWith) Serialize() bson.Value {
	b := new(bson.Builder)
	if u.from.NS.Coll != "" {
		b.String("coll", u.from.NS.Coll)
	}
	b.OpenArray("pipeline")
	for i, d := range u.from.Pipeline.Serialize() {
		b.Doc(bson.Index(i), d)
	}
	return bson.Document(b.Close().Finish())
}

// Other is the pipeline and its collection, with a run for it inside r.
func (u *UnionWith) Other(r *Run) (Namespace, *Pipeline, *Run) {
	return u.from.NS, u.from.Pipeline, r.within(u.from.outer, nil)
}

// Reached reports whether a $unionWith has come to its other pipeline.
func (s *StageStats) Reached() bool {
	u, ok := s.it.(*union)
	return ok && u.sub != nil
}

// Open delivers the documents of in, then those of the other pipeline.
func (u *UnionWith) Open(in Iterator, r *Run) (Iterator, error) {
	return &union{u: u, in: in, r: r}, nil
}

type union struct {
	u     *UnionWith
	in    Iterator
	r     *Run
	other Iterator
	over  bool     // other has ended
	sub   *Run     // nil until the other pipeline is reached
	doc   bson.Doc // stages above may hold it while other rests
}

func (u *union) Close() {
	u.in.Close()
	u.closeOther()
}

// closeOther closes the other pipeline: stages above may be busy for long
// with what they have of it, while its collection is dropped.
func (u *union) closeOther() {
	if u.other != nil {
		u.r.leave(u.other)
		u.other.Close()
		u.other = nil
	}
}

func (u *union) Next(ctx context.Context) (bson.Doc, error) {
	if u.over {
		return nil, nil
	}
	if u.other == nil {
		d, err := u.in.Next(ctx)
		if err != nil || d != nil {
			return d, err
		}
		u.sub = u.r.within(u.u.from.outer, nil)
		if u.other, err = u.u.from.openIn(ctx, u.sub, nil); err != nil {
			return nil, err
		}
		u.r.enter(u.other)
	}
	d, err := u.other.Next(ctx)
	if err != nil {
		return nil, err
	}
	if d == nil {
		u.over = true
		u.closeOther()
		return nil, nil
	}
	u.r.Meta = u.sub.Meta
	u.doc = append(u.doc[:0], d...)
	return u.doc, nil
}
