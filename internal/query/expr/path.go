package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ValidatePath checks a dotted path ("a.b.c", no '$' in front) as the server's
// FieldPath does.
func ValidatePath(path string) error {
	if path == "" {
		return mongoerr.New(mongoerr.Code(40352), "FieldPath cannot be constructed with empty string")
	}
	if path[len(path)-1] == '.' {
		return mongoerr.New(mongoerr.Code(40353), "FieldPath must not end with a '.'.")
	}
	parts := 1
	for rest := path; ; parts++ {
		name, tail, more := strings.Cut(rest, ".")
		if err := ValidateFieldName(name); err != nil {
			return err
		}
		if !more {
			break
		}
		rest = tail
	}
	if parts > maxDepth {
		return mongoerr.New(mongoerr.Code(5984700), "FieldPath is too long")
	}
	return nil
}

// dollarFields are the names with a dollar that paths may have: those of DBRefs
// and of metadata that members of a cluster exchange.
var dollarFields = map[string]bool{"$id": true, "$ref": true, "$db": true, "$sortKey": true, "$recordId": true}

// ValidateFieldName checks one component of a path, or the name of a field that
// an expression makes.
func ValidateFieldName(name string) error {
	switch {
	case name == "":
		return mongoerr.New(mongoerr.Code(15998), "FieldPath field names may not be empty strings.")
	case name[0] == '$' && !dollarFields[name]:
		return mongoerr.New(mongoerr.Code(16410),
			"FieldPath field names may not start with '$'. Consider using $getField or $setField.")
	case strings.IndexByte(name, 0) >= 0:
		return mongoerr.New(mongoerr.Code(16411), "FieldPath field names may not contain '\\0'.")
	case strings.IndexByte(name, '.') >= 0:
		return mongoerr.New(mongoerr.Code(16412),
			"FieldPath field names may not contain '.'. Consider using $getField or $setField.")
	}
	return nil
}

// fieldPath reads a variable, or the value at a path below it.
type fieldPath struct {
	slot  int
	parts []string // empty for the variable itself
	name  string   // the variable's name; "" for a plain "$a"
	free  bool     // the variable is one of Options.Vars
}

// fieldPath parses "$a.b" and "$$var.a.b".
func (p *parser) fieldPath(s string) (Expr, error) {
	if len(s) < 2 {
		return nil, mongoerr.New(mongoerr.Code(16872), "'$' by itself is not a valid FieldPath")
	}
	f := &fieldPath{slot: p.current()}
	path := s[1:]
	if s[1] == '$' {
		var more bool
		f.name, path, more = strings.Cut(s[2:], ".")
		var err error
		if f.slot, err = p.reference(f.name); err != nil {
			return nil, err
		}
		f.free = f.slot >= 0 && f.slot < len(p.opts.Vars)
		if !more {
			return f, nil
		}
		if path == "" {
			path = "." // "$$x." ends with a dot
		}
	} else if p.opts.NoDocument {
		return nil, mongoerr.New(mongoerr.Code(4890500),
			"Command let Expression tried to access a field, but this is not allowed because Command let expressions run before the query examines any documents.")
	}
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	f.parts = strings.Split(path, ".")
	return f, nil
}

func (f *fieldPath) walk(func(*Expr)) {}

func (f *fieldPath) serialize() bson.Value {
	path := strings.Join(f.parts, ".")
	switch {
	case f.name == "" || f.slot == slotRoot && path != "":
		return bson.String("$" + path)
	case path == "":
		return bson.String("$$" + f.name)
	}
	return bson.String("$$" + f.name + "." + path)
}

func (f *fieldPath) Eval(env *Env) (bson.Value, error) {
	if f.slot == slotRoot && len(f.parts) > 0 {
		return env.path(env.root, f.parts)
	}
	v, err := env.variable(f.slot)
	if err != nil || len(f.parts) == 0 {
		return v, err
	}
	return env.below(v, f.parts)
}

// path returns the value at a dotted path of a document: through an array it
// is the array of the values of all elements that are objects and have it.
func (e *Env) path(d bson.Doc, parts []string) (bson.Value, error) {
	for len(parts) > 1 {
		v := d.Lookup(parts[0])
		parts = parts[1:]
		if v.Type != bson.TypeDocument {
			return e.below(v, parts)
		}
		d = v.Doc()
	}
	return d.Lookup(parts[0]), nil
}

// below is path for the value that the path starts at.
func (e *Env) below(v bson.Value, parts []string) (bson.Value, error) {
	switch v.Type {
	case bson.TypeDocument:
		return e.path(v.Doc(), parts)
	case bson.TypeArray:
		mark := e.mark()
		for it := v.Doc().Iter(); it.Next(); {
			if it.Value.Type != bson.TypeDocument {
				continue
			}
			found, err := e.path(it.Value.Doc(), parts)
			if err != nil {
				e.release(mark)
				return found, err
			}
			if !found.IsMissing() {
				e.push(found)
			}
		}
		return e.takeArray(mark)
	}
	return bson.Value{}, nil
}

// Lookup returns the value of the expression "$path" for doc, given the path's
// components.
func (e *Env) Lookup(doc bson.Doc, parts []string) (bson.Value, error) { return e.path(doc, parts) }

// AsFieldPath returns the dotted path of an expression that only reads a field
// of the current document ("$a.b" or "$$ROOT.a.b"); the path of $$ROOT itself is
// empty.
func AsFieldPath(e Expr) (path string, ok bool) {
	f, ok := e.(*fieldPath)
	if !ok || f.slot != slotRoot {
		return "", false
	}
	return strings.Join(f.parts, "."), true
}
