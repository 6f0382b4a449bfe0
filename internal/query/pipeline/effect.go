package pipeline

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// effect describes how a stage changes the fields of each document.
type effect struct {
	// only, if not nil, has the paths that are kept.
	only []string
	// changes are the paths that are modified or removed.
	changes []string
	// renames are the top-level fields that are copies of others.
	renames map[string]string
	all     bool // every field may change
}

func pathOf(parts []string) string { return strings.Join(parts, ".") }

// overlap reports whether the paths are equal or one contains the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// within reports whether a path is one of the paths or below one.
func within(path string, paths []string) bool {
	for _, p := range paths {
		if path == p || strings.HasPrefix(path, p+".") {
			return true
		}
	}
	return false
}

// effectOf returns the effect of a shape.
func effectOf(s *Shape) effect {
	e := effect{renames: map[string]string{}}
	switch s.Spec.Kind() {
	case project.ReplaceRoot:
		return effect{all: true}
	case project.Inclusion:
		e.only = []string{}
	}
	e.read("", s.Spec.Serialize())
	return e
}

// read reads a specification in its normal form.
func (e *effect) read(prefix string, d bson.Doc) {
	for it := d.Iter(); it.Next(); {
		path := prefix + it.Key
		switch v := it.Value; {
		case v.Type == bson.TypeBool && v.Bool() && e.only != nil:
			e.only = append(e.only, path)
		case v.Type == bson.TypeDocument && !isOperator(v.Doc()):
			e.read(path+".", v.Doc())
		default:
			e.changes = append(e.changes, path)
			if prefix == "" && v.Type == bson.TypeString && strings.HasPrefix(v.Str(), "$") {
				from := v.Str()[1:]
				if !strings.HasPrefix(from, "$") && !strings.Contains(from, ".") {
					e.renames[path] = from
				}
			}
		}
	}
}

func isOperator(d bson.Doc) bool {
	name, _ := d.First()
	return strings.HasPrefix(name, "$")
}

// keeps reports whether the stage keeps the field at a path unchanged.
func (e effect) keeps(path string) bool {
	if e.all || e.only != nil && !within(path, e.only) {
		return false
	}
	for _, c := range e.changes {
		if overlap(path, c) {
			return false
		}
	}
	return true
}

// before returns the path of a field before the stage.
func (e effect) before(path string) (string, bool) {
	if e.keeps(path) {
		return path, true
	}
	name, rest, dotted := strings.Cut(path, ".")
	from, ok := e.renames[name]
	if dotted {
		from += "." + rest
	}
	return from, ok
}

// pass moves a predicate before the stage.
func (e effect) pass(n match.Node) (match.Node, bool) {
	d := match.DependsOn(n)
	if d.Whole || d.Random || len(d.Paths) == 0 {
		return nil, false
	}
	same := true
	for _, path := range d.Paths {
		if !e.keeps(path) {
			same = false
		}
	}
	if same {
		return n, true
	}
	return match.Rename(n, e.before)
}

// groupPass moves predicates on a group's _id before the group, if the _id is a field,
// or an object of fields.
func groupPass(g *Group) func(match.Node) (match.Node, bool) {
	if g.engine.handsOver {
		return nil
	}
	from := map[string]string{}
	id := expr.Serialize(g.ID)
	field := func(name string, v bson.Value) {
		if v.Type == bson.TypeString && strings.HasPrefix(v.Str(), "$") && !strings.ContainsAny(v.Str()[1:], "$.") {
			from[name] = v.Str()[1:]
		}
	}
	if id.Type == bson.TypeDocument && !isOperator(id.Doc()) {
		for it := id.Doc().Iter(); it.Next(); {
			field("_id."+it.Key, it.Value)
		}
	} else {
		field("_id", id)
	}
	return func(n match.Node) (match.Node, bool) {
		if !onlyCompares(n) {
			return nil, false
		}
		return match.Rename(n, func(path string) (string, bool) {
			p, ok := from[path]
			return p, ok
		})
	}
}

// onlyCompares reports whether a predicate treats a missing field like the null that a
// group makes of it.
func onlyCompares(n match.Node) bool {
	switch n := n.(type) {
	case *match.Compare:
		return n.Value.Type != bson.TypeMinKey && n.Value.Type != bson.TypeMaxKey
	case *match.In:
		for _, v := range n.Values {
			if v.Type == bson.TypeMinKey || v.Type == bson.TypeMaxKey {
				return false
			}
		}
		return true
	case *match.Regex, *match.Mod:
		return true
	}
	return false
}

// Needs returns the paths of the collection's documents that the pipeline
// reads; whole says that it may read any.
func (p *Pipeline) Needs() (paths []string, whole bool) {
	var d expr.Deps
	for _, s := range p.Stages {
		switch s := s.(type) {
		case *Group, *BucketAuto, *Count:
			exprsOf(s, &d)
			return d.Paths, d.Whole
		case *Shape:
			fields, whole := s.Spec.Fields()
			s.Spec.Deps(&d)
			if d.Whole {
				return nil, true
			}
			if !whole {
				for _, f := range fields {
					d.AddPath(f)
				}
				return d.Paths, false
			}
			if s.Spec.Kind() == project.ReplaceRoot {
				return nil, true
			}
		case *Match, *Sort, *Unwind, *Lookup, *Limit, *Skip:
			exprsOf(s, &d)
		default:
			return nil, true
		}
		if d.Whole {
			return nil, true
		}
	}
	return nil, true
}

// Pick is which document of each group a $group needs.
type Pick uint8

// Which documents a $group needs.
const (
	PickNone  Pick = iota // more than one document of a group, or there is no $group
	PickAny               // any document
	PickFirst             // the first
	PickLast              // the last
)

// GroupsBy returns the field that a pipeline groups by, if that is the first
// thing it does, and which document of each group it needs.
func (p *Pipeline) GroupsBy() (path string, pick Pick) {
	if len(p.Stages) == 0 {
		return "", PickNone
	}
	g, ok := p.Stages[0].(*Group)
	if !ok {
		return "", PickNone
	}
	if g.states && len(g.Fields) > 0 {
		return "", PickNone
	}
	if path, ok = expr.AsFieldPath(g.ID); !ok || path == "" {
		return "", PickNone
	}
	pick = PickAny
	for _, f := range g.Fields {
		needs := map[string]Pick{"$first": PickFirst, "$last": PickLast}[f.Spec.Name]
		if needs == PickNone || pick != PickAny && pick != needs {
			return "", PickNone
		}
		pick = needs
	}
	return path, pick
}

// Streams reports whether no stage reads all its input before it delivers
// anything.
func (p *Pipeline) Streams() bool { return !slices.ContainsFunc(p.Stages, blocks) }

// ConsumesAll reports whether the pipeline takes in all there is before it delivers
// anything, whatever it is.
func (p *Pipeline) ConsumesAll() bool {
	for _, s := range p.Stages {
		switch s.(type) {
		case *Group, *Sort, *BucketAuto, *Sample:
			return true
		case *Match, *Shape, *Unwind, *Lookup:
		default:
			return false
		}
	}
	return false
}

func blocks(s Stage) bool {
	switch s := s.(type) {
	case *Group, *Sort, *BucketAuto, *Facet, *Sample:
		return true
	case *sequence:
		return slices.ContainsFunc(s.stages, blocks)
	}
	return false
}

// GroupRoot is what a $group that needs one document of each group makes of
// it.
func (p *Pipeline) GroupRoot() bson.Doc {
	g := p.Stages[0].(*Group)
	b := new(bson.Builder).Value("_id", expr.Serialize(g.ID))
	for _, f := range g.Fields {
		b.Value(f.Name, expr.Serialize(f.Spec.Exprs()[0]))
	}
	return b.Finish()
}

// Reading is the pipeline without the stage at its end that writes.
func (p *Pipeline) Reading() *Pipeline {
	if n := len(p.Stages); n > 0 {
		switch p.Stages[n-1].(type) {
		case *Merge, *Out:
			return &Pipeline{p.Stages[:n-1]}
		}
	}
	return p
}
