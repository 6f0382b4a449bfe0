package pipeline

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Group is {$group: {_id: expression, field: {accumulator: …}}}.
type Group struct {
	ID     expr.Expr
	Fields []GroupField
	// idWithout is, where ID is an object of one field, the _id of documents
	// without a value for it, null: only such a single one stands for an absent
	// value.
	idWithout bson.Value
	name      string
	engine    engine
	keep      []string // the fields that it reads; nil: all
	states    bool     // it delivers the states of its accumulators
	joins     bool     // it reads such states
}

// GroupField is one accumulated field.
type GroupField struct {
	Name string
	Spec *expr.AccumulatorSpec
}

func parseGroup(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(15947, "a group's fields must be specified in an object")
	}
	g := &Group{name: "$group"}
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key == "_id" {
			if g.ID != nil {
				return nil, mongoerr.New(15948, "a group's _id may only be specified once")
			}
			if err := checkGroupID(it.Value); err != nil {
				return nil, err
			}
			id, err := expr.Parse(it.Value, p.Expr)
			if err != nil {
				return nil, err
			}
			g.ID = id
			if it.Value.Type == bson.TypeDocument && it.Value.Doc().Len() == 1 {
				if only, _ := it.Value.Doc().First(); !strings.HasPrefix(only, "$") {
					g.idWithout = bson.Document(new(bson.Builder).Null(only).Finish())
				}
			}
			continue
		}
		f, err := parseGroupField(it.Key, it.Value, p.Expr)
		if err != nil {
			return nil, err
		}
		g.Fields = append(g.Fields, f)
	}
	if g.ID == nil {
		return nil, mongoerr.New(15955, "a group specification must include an _id")
	}
	return g, nil
}

// checkGroupID rejects an _id that would mean inclusion in a projection: {a: 1}.
func checkGroupID(v bson.Value) error {
	if v.Type != bson.TypeDocument {
		return nil
	}
	if name, _ := v.Doc().First(); strings.HasPrefix(name, "$") {
		return nil
	}
	for field := range v.Doc().Values() {
		if field.IsNumber() || field.Type == bson.TypeBool {
			return mongoerr.New(17390, "$group does not support inclusion-style expressions")
		}
	}
	return nil
}

func parseGroupField(name string, v bson.Value, opts *expr.Options) (GroupField, error) {
	switch {
	case strings.Contains(name, "."):
		return GroupField{}, mongoerr.New(40235, "The field name '%s' cannot contain '.'", name)
	case strings.HasPrefix(name, "$"):
		return GroupField{}, mongoerr.New(40236, "The field name '%s' cannot be an operator name", name)
	case v.Type != bson.TypeDocument:
		return GroupField{}, mongoerr.New(40234, "The field '%s' must be an accumulator object", name)
	}
	op, arg := v.Doc().First()
	if !strings.HasPrefix(op, "$") {
		return GroupField{}, mongoerr.New(40234, "The field '%s' must be an accumulator object", name)
	}
	if v.Doc().Len() != 1 {
		return GroupField{}, mongoerr.New(40238, "The field '%s' must specify one accumulator", name)
	}
	spec, err := expr.ParseAccumulator(op, arg, opts)
	return GroupField{name, spec}, err
}

// parseSortByCount converts {$sortByCount: e} to a $group and a $sort.
func parseSortByCount(arg bson.Value, p *parsing) (Stage, error) {
	switch {
	case arg.Type == bson.TypeDocument:
		if name, _ := arg.Doc().First(); name == "" || name[0] != '$' {
			return nil, mongoerr.New(40147, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object")
		}
	case arg.Type == bson.TypeString:
		if arg.Str() == "" || arg.Str()[0] != '$' {
			return nil, mongoerr.New(40148, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object")
		}
	default:
		return nil, mongoerr.New(40149, "the sortByCount field must be specified as a string or as an object")
	}
	g, err := parseGroup(bson.Document(countOf(arg)), p)
	if err != nil {
		return nil, err
	}
	s, err := parseSort(bson.Document(new(bson.Builder).Int32("count", -1).Finish()), p)
	if err != nil {
		return nil, err
	}
	return &sequence{name: "$sortByCount", arg: arg, stages: []Stage{g, s}}, nil
}

// countOf is the $group of a $sortByCount.
func countOf(arg bson.Value) bson.Doc {
	return new(bson.Builder).Value("_id", arg).OpenDoc("count").Int32("$sum", 1).Close().Finish()
}

// sequence is a stage that expands to several.
type sequence struct {
	name   string
	arg    bson.Value
	stages []Stage
}

func (s *sequence) Name() string          { return s.name }
func (s *sequence) Serialize() bson.Value { return s.arg }

// Open is there for the interface: parsing puts the stages in the place of the
// sequence.
func (s *sequence) Open(in Iterator, r *Run) (Iterator, error) {
	return (&Pipeline{s.stages}).Open(in, r)
}

// Name is the stage's name.
func (g *Group) Name() string { return g.name }

// Serialize is the specification.
func (g *Group) Serialize() bson.Value {
	b := new(bson.Builder).Value("_id", expr.Serialize(g.ID))
	for _, f := range g.Fields {
		b.Value(f.Name, f.Spec.Serialize())
	}
	if g.states {
		b = new(bson.Builder).Int32("version", statesVersion).Doc("group", b.Finish())
	}
	return bson.Document(b.Finish())
}
