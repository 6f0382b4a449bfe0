package nosql

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// FilterPath is a property that a Filter has a condition on.
type FilterPath struct {
	Path     string // dotted
	Equality bool   // by one value or a list of them, not by a range
	Elements bool   // the elements of the array there
	Spatial  bool   // by a shape
}

// Names are the steps to the property, "[]" for an array's elements.
func (p FilterPath) Names() []string {
	names := strings.Split(p.Path, ".")
	if p.Elements {
		names = append(names, "[]")
	}
	return names
}

// Filter returns a filter in MongoDB's language that matches at least the items that
// the query selects: the conditions of WHERE on values, ranges and array elements of
// properties. It is empty if there are none. WHERE is still evaluated (invariant
// superset). paths are the properties in it.
func (q *Query) Filter() (filter bson.Doc, paths []FilterPath) {
	if q.s.from == nil || q.s.where == nil {
		return bson.Empty, nil
	}
	t := translator{q: q}
	if d := t.filter(q.s.where, 0); d != nil {
		return d, t.paths
	}
	return bson.Empty, nil
}

// translator makes a filter of a WHERE.
type translator struct {
	q     *Query
	paths []FilterPath
}

// maxFilterDepth bounds how deep AND and OR nest in a filter.
const maxFilterDepth = 16

// filter makes a filter of an expression, or nil if it cannot: of AND the
// operands that it can translate, of OR all or nothing.
func (t *translator) filter(e expression, depth int) bson.Doc {
	l, ok := e.(*logical)
	if !ok {
		return t.translate(e)
	}
	if depth > maxFilterDepth {
		return nil
	}
	mark := len(t.paths)
	name := "$and"
	if l.or {
		name = "$or"
	}
	var parts []bson.Doc
	for _, operand := range operands(e, l.or, nil) {
		d := t.filter(operand, depth+1)
		if d == nil && l.or {
			t.paths = t.paths[:mark]
			return nil
		}
		if d != nil {
			parts = append(parts, d)
		}
	}
	if len(parts) < 2 {
		return append(parts, nil)[0]
	}
	var b bson.Builder
	b.OpenArray(name)
	for i, d := range parts {
		b.Doc(bson.Index(i), d)
	}
	return b.Finish()
}

// operands are what a chain of AND, or of OR, connects.
func operands(e expression, or bool, dst []expression) []expression {
	if l, ok := e.(*logical); ok && l.or == or {
		return operands(l.r, or, operands(l.l, or, dst))
	}
	return append(dst, e)
}

// Fixed returns the one value that WHERE allows a property of the container's items to
// have, and whether there is one. The path is dotted.
func (q *Query) Fixed(path string) (bson.Value, bool) {
	if q.s.where == nil {
		return bson.Value{}, false
	}
	for _, e := range operands(q.s.where, false, nil) {
		c, ok := e.(*comparison)
		if !ok || c.op != "=" {
			continue
		}
		for _, sides := range [2][2]expression{{c.l, c.r}, {c.r, c.l}} {
			if p, ok := q.s.path(sides[0]); !ok || p != path {
				continue
			}
			if v, ok := q.value(sides[1]); ok {
				return v, true
			}
		}
	}
	return bson.Value{}, false
}

// operators are MongoDB's names of comparisons, as they are and with the sides
// exchanged.
var operators = map[string][2]string{
	"=": {"$eq", "$eq"}, "<": {"$lt", "$gt"}, "<=": {"$lte", "$gte"}, ">": {"$gt", "$lt"}, ">=": {"$gte", "$lte"},
}

// translate makes a filter of one condition, or nil if it cannot.
func (t *translator) translate(e expression) bson.Doc {
	switch e := e.(type) {
	case *comparison:
		op, known := operators[e.op]
		if !known {
			return nil
		}
		if d := t.distance(e); d != nil {
			return d
		}
		if path, ok := t.path(e.l); ok {
			return t.compareTo(path, op[0], e.r)
		}
		if path, ok := t.path(e.r); ok {
			return t.compareTo(path, op[1], e.l)
		}
	case *membership:
		return t.in(e)
	case *like:
		return t.like(e)
	case *call:
		if d := t.meets(e); d != nil {
			return d
		}
		return t.call(e)
	}
	return nil
}

// path is the path of a property of the container's items; not of one that the store has
// under another name.
func (t *translator) path(e expression) (string, bool) {
	path, ok := t.q.s.path(e)
	return path, ok && !InRenamed(path)
}

// IsRenamed reports whether a property of an item is stored under another name: it has that of a
// field of the store, or that with '%'s before it.
func IsRenamed(name string) bool {
	if name == "" || name[0] != '_' && name[0] != '%' {
		return false
	}
	name = strings.TrimLeft(name, "%")
	return name == "_id" || name == "_n" || name == "_lsn"
}

// InRenamed is IsRenamed of the first property of a dotted path.
func InRenamed(path string) bool {
	first, _, _ := strings.Cut(path, ".")
	return IsRenamed(first)
}

func (t *translator) compareTo(path, op string, e expression) bson.Doc {
	v, ok := t.q.value(e)
	if !ok {
		return nil
	}
	t.paths = append(t.paths, FilterPath{Path: path, Equality: op == "$eq"})
	var b bson.Builder
	return b.OpenDoc(path).Value(op, v).Close().Finish()
}

func (t *translator) in(e *membership) bson.Doc {
	path, ok := t.path(e.value)
	if !ok {
		return nil
	}
	var b bson.Builder
	b.OpenDoc(path).OpenArray("$in")
	for i, x := range e.list {
		v, ok := t.q.value(x)
		if !ok {
			return nil
		}
		b.Value(bson.Index(i), v)
	}
	t.paths = append(t.paths, FilterPath{Path: path, Equality: true})
	return b.Close().Close().Finish()
}

// like translates a pattern that begins with text.
func (t *translator) like(e *like) bson.Doc {
	path, ok := t.path(e.value)
	if !ok || e.escape != 0 {
		return nil
	}
	v, ok := t.q.value(e.pattern)
	if !ok || !isText(v) {
		return nil
	}
	prefix := v.Str()
	if end := strings.IndexAny(prefix, "%_["); end >= 0 {
		prefix = prefix[:end]
	}
	return t.prefix(path, prefix)
}

// prefix asks for strings that begin with a text.
func (t *translator) prefix(path, prefix string) bson.Doc {
	if prefix == "" {
		return nil
	}
	t.paths = append(t.paths, FilterPath{Path: path})
	var b bson.Builder
	// No UTF-8 has a byte above 0xF4.
	return b.OpenDoc(path).String("$gte", prefix).String("$lt", prefix+"\xff").Close().Finish()
}

// call translates STARTSWITH and ARRAY_CONTAINS.
func (t *translator) call(e *call) bson.Doc {
	if len(e.args) != 2 {
		return nil
	}
	path, ok := t.path(e.args[0])
	if !ok {
		return nil
	}
	v, ok := t.q.value(e.args[1])
	switch {
	case !ok:
	case e.f == functions["STARTSWITH"] && isText(v):
		return t.prefix(path, v.Str())
	case e.f == functions["ARRAY_CONTAINS"]:
		t.paths = append(t.paths, FilterPath{Path: path, Equality: true, Elements: true})
		return new(bson.Builder).OpenDoc(path).Value("$eq", v).Close().Finish()
	}
	return nil
}

// value is a constant or parameter that both languages compare alike: not
// null, which for MongoDB means missing, too, and no array or object, whose
// order of fields counts there.
func (q *Query) value(e expression) (bson.Value, bool) {
	var v bson.Value
	switch e := e.(type) {
	case *constant:
		v = e.v
	case *parameter:
		v = q.params[e.name]
	case *sign:
		inner, ok := q.value(e.e)
		if !ok {
			return v, false
		}
		v, _ = (&sign{e.op, &constant{inner}}).eval(nil)
	}
	rank := typeRank(v)
	return v, rank >= typeRank(bson.Bool(false)) && rank <= typeRank(text(""))
}

// path is the dotted path of a property of the container's alias; names that
// the other language would read differently have none.
func (s *selection) path(e expression) (string, bool) {
	var names []string // the innermost first
	for {
		p, ok := e.(*property)
		if !ok {
			return "", false
		}
		key, ok := p.key.(*constant)
		if !ok || !isText(key.v) {
			return "", false
		}
		name := key.v.Str()
		if name == "" || strings.ContainsAny(name, ".$\x00") || strings.Trim(name, "0123456789") == "" {
			return "", false
		}
		names = append(names, name)
		if of, top := p.of.(*alias); top {
			slices.Reverse(names)
			return strings.Join(names, "."), s.from != nil && s.from.root && len(s.from.path) == 0 && !s.from.iterate && of.slot == s.from.slot
		}
		e = p.of
	}
}
