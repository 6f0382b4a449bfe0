package node

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// QueryShapeHash returns the hash of the shape of a find, aggregate or
// distinct: the command with its literals replaced by their types, as in query
// statistics and query settings; "" for other commands. Unlike the shape of the
// plan cache, it keeps the order of fields and all stages.
func QueryShapeHash(db string, body bson.Doc) string {
	shape := queryShape(db, body)
	if shape == nil {
		return ""
	}
	return fmt.Sprintf("%X", sha256.Sum256(shape))
}

// debugQueryShape is the shape as $querySettings shows it.
func debugQueryShape(db string, body bson.Doc) bson.Doc {
	shape := queryShape(db, body)
	b := new(bson.Builder).OpenDoc("cmdNs").Value("db", shape.Lookup("db")).Value("coll", shape.Lookup("coll")).Close()
	for name, v := range shape.All() {
		if name != "db" && name != "coll" {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// queryShape returns the shape of a find, aggregate or distinct, nil for other commands.
func queryShape(db string, body bson.Doc) bson.Doc {
	name, coll := body.First()
	var b bson.Builder
	b.String("db", db).Value("coll", coll).String("command", name)
	switch name {
	case "find":
		b.Doc("filter", shapeFilter(body.Lookup("filter").Doc()))
		if d := body.Lookup("projection"); d.Type == bson.TypeDocument {
			b.Doc("projection", shapeProjection(d.Doc()))
		}
		for _, option := range []string{"limit", "skip", "min", "max"} {
			if v := body.Lookup(option); !v.IsMissing() {
				b.String(option, shapeLiteral(v))
			}
		}
		keepFields(&b, body, "sort", "hint", "returnKey", "showRecordId", "tailable", "awaitData")
	case "aggregate":
		b.Value("pipeline", shapePipeline(body.Lookup("pipeline")))
		keepFields(&b, body, "hint")
	case "distinct":
		b.Doc("query", shapeFilter(body.Lookup("query").Doc()))
		keepFields(&b, body, "key", "hint")
	default:
		return nil
	}
	keepFields(&b, body, "collation")
	if v := body.Lookup("let"); v.Type == bson.TypeDocument {
		b.Value("let", shapeExpression("", v))
	}
	return b.Finish()
}

func keepFields(b *bson.Builder, d bson.Doc, names ...string) {
	for _, name := range names {
		if v := d.Lookup(name); !v.IsMissing() {
			b.Value(name, v)
		}
	}
}

// shapeFilter returns the shape of a filter: every condition with its operator,
// several of them under one $and.
func shapeFilter(d bson.Doc) bson.Doc {
	var clauses []bson.Doc
	if d != nil {
		clauses = shapeClauses(d)
	}
	switch len(clauses) {
	case 0:
		return bson.Empty
	case 1:
		return clauses[0]
	}
	return shapeList("$and", clauses)
}

func shapeList(name string, docs []bson.Doc) bson.Doc {
	b := new(bson.Builder).OpenArray(name)
	for i, d := range docs {
		b.Doc(bson.Index(i), d)
	}
	return b.Close().Finish()
}

func shapeClauses(d bson.Doc) []bson.Doc {
	var out []bson.Doc
	for name, v := range d.All() {
		switch {
		case name == "$comment":
		case (name == "$and" || name == "$or" || name == "$nor") && v.Type == bson.TypeArray:
			var list []bson.Doc
			for e := range v.Doc().Values() {
				if e.Type == bson.TypeDocument {
					list = append(list, shapeFilter(e.Doc()))
				}
			}
			if name == "$and" {
				out = append(out, list...)
			} else {
				out = append(out, shapeList(name, list))
			}
		case strings.HasPrefix(name, "$"):
			out = append(out, new(bson.Builder).Value(name, shapeExpression(name, v)).Finish())
		case isOperators(v):
			for op, arg := range v.Doc().All() {
				out = append(out, new(bson.Builder).OpenDoc(name).Value(op, shapeOperand(op, arg)).Close().Finish())
			}
		case v.Type == bson.TypeRegex:
			out = append(out, new(bson.Builder).OpenDoc(name).String("$regex", "?string").Close().Finish())
		default:
			out = append(out, new(bson.Builder).OpenDoc(name).String("$eq", shapeLiteral(v)).Close().Finish())
		}
	}
	return out
}

func isOperators(v bson.Value) bool {
	if v.Type != bson.TypeDocument {
		return false
	}
	name, _ := v.Doc().First()
	return strings.HasPrefix(name, "$") && name != "$ref" && name != "$id" && name != "$db"
}

// shapeOperand returns the shape of an operator's argument.
func shapeOperand(op string, v bson.Value) bson.Value {
	switch op {
	case "$not", "$elemMatch":
		if !isOperators(v) {
			if v.Type == bson.TypeDocument {
				return bson.Document(shapeFilter(v.Doc()))
			}
			break
		}
		var b bson.Builder
		for op, arg := range v.Doc().All() {
			b.Value(op, shapeOperand(op, arg))
		}
		return bson.Document(b.Finish())
	case "$type":
		if v.Type != bson.TypeArray {
			return bson.ArrayOf(new(bson.Builder).Value("0", v).Finish())
		}
		return v
	case "$exists":
		return bson.Bool(v.Truthy())
	case "$options":
		return v
	case "$all":
		if v.Type == bson.TypeArray {
			var b bson.Builder
			for name, e := range v.Doc().All() {
				b.String(name, shapeLiteral(e))
			}
			return bson.ArrayOf(b.Finish())
		}
	}
	return bson.String(shapeLiteral(v))
}

// shapeLiteral returns the type that replaces a literal.
func shapeLiteral(v bson.Value) string {
	if v.Type != bson.TypeArray {
		if v.IsNumber() {
			return "?number"
		}
		return "?" + v.Type.String()
	}
	kinds := map[string]bool{}
	kind := ""
	for e := range v.Doc().Values() {
		kind = shapeLiteral(e)
		kinds[kind] = true
	}
	switch len(kinds) {
	case 0:
		return "[]"
	case 1:
		return "?array<" + kind + ">"
	}
	return "?array<>"
}

// shapeNames are the fields whose strings are names and not literals.
var shapeNames = map[string]bool{
	"from": true, "into": true, "coll": true, "as": true, "localField": true, "foreignField": true, "connectFromField": true,
	"connectToField": true, "db": true, "$out": true, "required": true, "bsonType": true, "type": true, "field": true, "$count": true, "$unset": true,
}

// shapeExpression keeps the operators, the paths and the names of an
// expression or of a stage's argument.
func shapeExpression(name string, v bson.Value) bson.Value {
	switch {
	case v.Type == bson.TypeDocument:
		var b bson.Builder
		for k, e := range v.Doc().All() {
			b.Value(k, shapeExpression(k, e))
		}
		return bson.Document(b.Finish())
	case v.Type == bson.TypeArray:
		if name == "pipeline" {
			return shapePipeline(v)
		}
		var b bson.Builder
		for k, e := range v.Doc().All() {
			b.Value(k, shapeExpression(name, e))
		}
		return bson.ArrayOf(b.Finish())
	case v.Type == bson.TypeString && (strings.HasPrefix(v.Str(), "$") || shapeNames[name]):
		return v
	}
	return bson.String(shapeLiteral(v))
}

// shapeProjection returns the shape of a projection: flags as bools,
// expressions without their literals.
func shapeProjection(d bson.Doc) bson.Doc {
	var b bson.Builder
	for name, v := range d.All() {
		if v.IsNumber() || v.Type == bson.TypeBool {
			b.Bool(name, v.Truthy())
		} else {
			b.Value(name, shapeExpression(name, v))
		}
	}
	return b.Finish()
}

func shapePipeline(v bson.Value) bson.Value {
	if v.Type != bson.TypeArray {
		return v
	}
	var b bson.Builder
	for k, e := range v.Doc().All() {
		if e.Type != bson.TypeDocument {
			continue
		}
		stage, arg := e.Doc().First()
		b.OpenDoc(k)
		switch {
		case stage == "$match" && arg.Type == bson.TypeDocument:
			b.Doc(stage, shapeFilter(arg.Doc()))
		case stage == "$project" && arg.Type == bson.TypeDocument:
			b.Doc(stage, shapeProjection(arg.Doc()))
		case stage == "$sort":
			b.Value(stage, arg)
		case stage == "$facet" && arg.Type == bson.TypeDocument:
			b.OpenDoc(stage)
			for name, sub := range arg.Doc().All() {
				b.Value(name, shapePipeline(sub))
			}
			b.Close()
		default:
			b.Value(stage, shapeExpression(stage, arg))
		}
		b.Close()
	}
	return bson.ArrayOf(b.Finish())
}
