package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// A $group over several shards: each shard delivers the states of its groups
// ($_internalGroupStates), {_id, "0": state of the first accumulator, …}, and the router joins
// those that have one _id ($_internalJoinGroups).

const (
	// StatesStage is the name of the shards' stage: {version: 1, group: the $group}.
	StatesStage = "$_internalGroupStates"
	joinStage   = "$_internalJoinGroups"
	// statesVersion is the version of what expr.Saver saves.
	statesVersion = 1
)

// SplitGroup divides a $group or a $sortByCount into the stage for shards and those for the
// router. ok is false if it is neither.
func SplitGroup(name string, arg bson.Value) (shards bson.Value, router []bson.Value, ok bool) {
	var sort []bson.Value
	if name == "$sortByCount" {
		by := new(bson.Builder).Int32("count", -1).Finish()
		sort = []bson.Value{bson.Document(new(bson.Builder).Doc("$sort", by).Finish())}
		name, arg = "$group", bson.Document(countOf(arg))
	}
	if name != "$group" || arg.Type != bson.TypeDocument {
		return shards, nil, false
	}
	b := new(bson.Builder).Null("_id")
	for field, v := range arg.Doc().All() {
		if field == "_id" {
			continue
		}
		if v.Type != bson.TypeDocument {
			return shards, nil, false
		}
		op, of := v.Doc().First()
		if !expr.IsAccumulator(op) {
			return shards, nil, false
		}
		b.OpenDoc(field).Value(op, withoutInput(op, of)).Close()
	}
	spec := new(bson.Builder).Int32("version", statesVersion).Value("group", arg).Finish()
	shards = bson.Document(new(bson.Builder).Doc(StatesStage, spec).Finish())
	join := bson.Document(new(bson.Builder).Doc(joinStage, b.Finish()).Finish())
	return shards, append([]bson.Value{join}, sort...), true
}

// withoutInput returns an accumulator's argument without what it evaluates for each document:
// a router joins, and sees no documents.
func withoutInput(op string, arg bson.Value) bson.Value {
	switch op {
	case "$count":
		return arg
	case "$accumulator", "$_internalJsReduce":
		return functionsOf(arg)
	case "$firstN", "$lastN", "$minN", "$maxN", "$top", "$bottom", "$topN", "$bottomN", "$median", "$percentile":
		var b bson.Builder
		for name, v := range arg.Doc().All() {
			if name == "input" || name == "output" {
				v = bson.Null
			}
			b.Value(name, v)
		}
		return bson.Document(b.Finish())
	}
	return bson.Null
}

// functionsOf is the argument of an accumulator with functions: what they get of documents is
// in the states.
func functionsOf(arg bson.Value) bson.Value {
	if arg.Type != bson.TypeDocument {
		return arg // which is refused
	}
	var b bson.Builder
	for name, v := range arg.Doc().All() {
		switch name {
		case "init": // its state is replaced
			v = bson.String("function() { return null; }")
		case "initArgs", "accumulateArgs":
			v = bson.Array()
		case "data":
			v = bson.Null
		}
		b.Value(name, v)
	}
	return bson.Document(b.Finish())
}

func parseGroupStates(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "%s must be an object", StatesStage)
	}
	if v := arg.Doc().Lookup("version"); !v.IsNumber() || bson.ToDouble(v) != statesVersion {
		return nil, mongoerr.New(mongoerr.FailedToParse, "%s is of version %s, and this server knows %d: the router is of another version", StatesStage, v, statesVersion)
	}
	s, err := parseGroup(arg.Doc().Lookup("group"), p)
	if err != nil {
		return nil, err
	}
	g := s.(*Group)
	g.name, g.states = StatesStage, true
	return g, nil
}

// joinGroups is $_internalJoinGroups. It is no *Group, of which a stage behind could be moved
// to its front: what it reads has no fields of documents.
type joinGroups struct{ g *Group }

func parseJoinGroups(arg bson.Value, p *parsing) (Stage, error) {
	if !p.Joins {
		return nil, mongoerr.New(40324, "Unrecognized pipeline stage name: '%s'", joinStage)
	}
	s, err := parseGroup(arg, p)
	if err != nil {
		return nil, err
	}
	g := s.(*Group)
	g.name, g.joins = joinStage, true
	return &joinGroups{g}, nil
}

func (j *joinGroups) Name() string                               { return joinStage }
func (j *joinGroups) Serialize() bson.Value                      { return j.g.Serialize() }
func (j *joinGroups) Open(in Iterator, r *Run) (Iterator, error) { return j.g.Open(in, r) }

// appendStates appends the states of a group's accumulators. state is memory for one of
// them, and is returned.
func (gr *group) appendStates(b *bson.Builder, state []byte) ([]byte, error) {
	for i, a := range gr.acc {
		saved, err := a.(expr.Saver).Save(state[:0])
		if err != nil {
			return state, err
		}
		b.Binary(bson.Index(i), 0, saved)
		state = saved
	}
	return state, nil
}

// join adds the states of a document to the group. They are in the order of the accumulators.
func (gr *group) join(env *expr.Env, d bson.Doc) (grown int, err error) {
	rest := gr.acc
	for it := d.Iter(); it.Next(); {
		if it.Key == "_id" {
			continue
		}
		if len(rest) == 0 || it.Value.Type != bson.TypeBinary {
			return grown, mongoerr.New(mongoerr.FailedToParse, "a group's state %s is of type %s, of %d", it.Key, it.Value.Type, len(gr.acc))
		}
		a := rest[0]
		rest = rest[1:]
		before := a.Size()
		_, state := it.Value.Binary()
		if err := a.(expr.Saver).Load(env, state); err != nil {
			return grown, err
		}
		grown += a.Size() - before
	}
	if len(rest) > 0 {
		return grown, mongoerr.New(mongoerr.FailedToParse, "a group has %d states, of %d", len(gr.acc)-len(rest), len(gr.acc))
	}
	return grown, nil
}
