package match

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/pcre"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Node is one predicate of a normalised filter. The implementations are the
// pointer types of this package; a switch over them is the planner's way in.
type Node interface {
	match(s subject, env *Env) (bool, error)
	// kind is the node's place in the normal order of siblings.
	kind() kind
	// text appends the fields of the node's normal form, for explain.
	text(b *bson.Builder)
}

// Leaf is a Node that looks at one path.
type Leaf interface {
	Node
	// FieldPath is the dotted path, empty if the node looks at the value
	// itself (inside a value $elemMatch).
	FieldPath() string
}

// And matches if all children do; without children it matches everything.
type And struct{ Children []Node }

// Or matches if at least one child does.
type Or struct{ Children []Node }

// Nor matches if no child does.
type Nor struct{ Children []Node }

// Not matches if its child does not ($not, $ne, $nin, $exists: false).
type Not struct{ Child Node }

// Op is the operator of a Compare.
type Op uint8

// The comparison operators. $ne is a Not around an Eq.
const (
	Eq Op = iota
	Lt
	Lte
	Gt
	Gte
)

// Compare is {path: {$eq|$lt|$lte|$gt|$gte: value}}. It compares within the
// type class of Value only, except that null also equals a missing field and
// MinKey and MaxKey order everything.
type Compare struct {
	leaf
	Op    Op
	Value bson.Value
	Coll  bson.Collator // nil is the simple collation
	name  [1]string     // backs parts if the path has only one
}

// In is {path: {$in: [...]}}: Values are sorted by bson.CompareWith and free of
// duplicates; Regexes match strings in addition.
type In struct {
	leaf
	Values  []bson.Value
	Regexes []*Regex
	Coll    bson.Collator
	hasNull bool
}

// Regex is {path: /pattern/options}. It ignores the collation.
type Regex struct {
	leaf
	Pattern string
	Options string // the flags among i m s x u, as written
	prog    *pcre.Regexp
	// start is what a text begins with where the pattern says no more than that; "" else.
	start string
}

// Exists is {path: {$exists: true}}; {$exists: false} is a Not around it.
type Exists struct{ leaf }

// Type is {path: {$type: ...}}.
type Type struct {
	leaf
	Types TypeSet
}

// Mod is {path: {$mod: [Divisor, Remainder]}}.
type Mod struct {
	leaf
	Divisor, Remainder int64
}

// Size is {path: {$size: N}}.
type Size struct {
	leaf
	N int64
}

// ElemMatchObject is {path: {$elemMatch: {field: ...}}}: Child is matched
// against each element that is a document or an array.
type ElemMatchObject struct {
	leaf
	Child Node
}

// ElemMatchValue is {path: {$elemMatch: {$gt: ...}}}: one element satisfies
// all Children, which are leaves (or Nots and the like of leaves) with an
// empty path.
type ElemMatchValue struct {
	leaf
	Children []Node
}

// BitOp is the operator of a BitTest.
type BitOp uint8

// The bitwise operators.
const (
	BitsAllSet BitOp = iota
	BitsAllClear
	BitsAnySet
	BitsAnyClear
)

// BitTest is {path: {$bitsAllSet: ...}} or one of the three other bit tests.
type BitTest struct {
	leaf
	Op        BitOp
	Positions []uint32 // ascending, free of duplicates; 0 is the lowest bit

}

// Always is $alwaysTrue and $alwaysFalse.
type Always struct{ True bool }

// Expr is {$expr: expression}: it matches if the expression is true.
type Expr struct{ Expr expr.Expr }

// JSONSchema is {$jsonSchema: Schema}.
type JSONSchema struct {
	Schema bson.Doc
	root   *schema
}

// Text is {$text: {$search: …}}. It needs a text index to be answered from;
// matched against a document by itself, it is an error.
type Text struct {
	Search             string
	Language           string // empty for the index's default
	CaseSensitive      bool
	DiacriticSensitive bool

	bound atomic.Pointer[boundText]
}

// GeoWithin is {path: {$geoWithin: …}} or {path: {$geoIntersects: …}}.
type GeoWithin struct {
	leaf
	Intersects bool
	Spec       bson.Value
	Shape      *geo.Geometry // on the sphere if Intersects
}

// GeoNear is {path: {$near: …}} or {path: {$nearSphere: …}}, with the distances next to
// it. It needs a geospatial index to be answered from.
type GeoNear struct {
	leaf
	Spec bson.Doc
	Near *Near
}

// kind orders siblings: the order of the server's match types, which shows in
// explain.
type kind uint8

const (
	kindAnd kind = iota
	kindOr
	kindElemMatchObject
	kindElemMatchValue
	kindSize
	kindEq
	kindLte
	kindLt
	kindGt
	kindGte
	kindRegex
	kindMod
	kindExists
	kindIn
	kindBitsAllSet
	kindBitsAllClear
	kindBitsAnySet
	kindBitsAnyClear
	kindNot
	kindNor
	kindType
	kindGeo
	kindWhere
	kindExpr
	kindAlwaysFalse
	kindAlwaysTrue
	kindGeoNear
	kindText
	kindOwned
	kindSchema
)
