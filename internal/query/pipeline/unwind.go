package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Unwind is {$unwind: path}: a document for each element of an array.
type Unwind struct {
	Path     string // dotted, without the dollar sign
	parts    []string
	Keep     bool   // preserveNullAndEmptyArrays
	Index    string // includeArrayIndex, or ""
	indexing []string
}

func parseUnwind(arg bson.Value, _ *parsing) (Stage, error) {
	u := &Unwind{}
	path := arg
	if arg.Type == bson.TypeDocument {
		path = bson.Value{}
		for it := arg.Doc().Iter(); it.Next(); {
			switch it.Key {
			case "path":
				path = it.Value
			case "preserveNullAndEmptyArrays":
				if it.Value.Type != bson.TypeBool {
					return nil, mongoerr.New(28809, "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got %s", it.Value.Type)
				}
				u.Keep = it.Value.Bool()
			case "includeArrayIndex":
				if it.Value.Type != bson.TypeString || it.Value.Str() == "" {
					return nil, mongoerr.New(28810, "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got %s", it.Value.Type)
				}
				if it.Value.Str()[0] == '$' {
					return nil, mongoerr.New(28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$': %s", it.Value.Str())
				}
				u.Index = it.Value.Str()
				var err error
				if u.indexing, err = splitPath(u.Index); err != nil {
					return nil, err
				}
			default:
				return nil, mongoerr.New(28811, "unrecognized option to $unwind stage: %s", it.Key)
			}
		}
	} else if arg.Type != bson.TypeString {
		return nil, mongoerr.New(15981, "expected either a string or an object as specification for $unwind stage, got %s", arg.Type)
	}
	switch {
	case path.IsMissing():
		return nil, mongoerr.New(28812, "no path specified to $unwind stage")
	case path.Type != bson.TypeString:
		return nil, mongoerr.New(28808, "expected a string as the path for $unwind stage, got %s", path.Type)
	case path.Str() == "":
		return nil, mongoerr.New(28812, "no path specified to $unwind stage")
	case path.Str()[0] != '$':
		return nil, mongoerr.New(28818, "path option to $unwind stage should be prefixed with a '$': %s", path.Str())
	}
	u.Path = path.Str()[1:]
	if strings.IndexByte(u.Path, 0) >= 0 {
		return nil, mongoerr.New(16419, "field path must not contain embedded null characters: %s", strings.ReplaceAll(u.Path, "\x00", ""))
	}
	var err error
	if u.parts, err = splitPath(u.Path); err != nil {
		return nil, err
	}
	return u, nil
}

// Name is the stage's name.
func (u *Unwind) Name() string { return "$unwind" }

// Serialize is the specification in full.
func (u *Unwind) Serialize() bson.Value {
	b := new(bson.Builder).String("path", "$"+u.Path)
	if u.Keep {
		b.Bool("preserveNullAndEmptyArrays", true)
	}
	if u.Index != "" {
		b.String("includeArrayIndex", u.Index)
	}
	return bson.Document(b.Finish())
}

// Open unwinds each document.
func (u *Unwind) Open(in Iterator, r *Run) (Iterator, error) {
	return &unwinding{u: u, in: in, r: r}, nil
}

type unwinding struct {
	u     *Unwind
	in    Iterator
	r     *Run
	doc   bson.Doc // being unwound, or nil
	array *bson.Iter
	at    int64
}

func (w *unwinding) Close() { w.in.Close() }

func (w *unwinding) Next(ctx context.Context) (bson.Doc, error) {
	for {
		if err := w.r.check(ctx); err != nil {
			return nil, err
		}
		if w.doc != nil {
			if w.array.Next() {
				w.at++
				return w.u.emit(w.doc, w.array.Value, bson.Int64(w.at-1)), nil
			}
			w.doc = nil
		}
		d, err := w.in.Next(ctx)
		if err != nil || d == nil {
			return nil, err
		}
		v := at(d, w.u.parts)
		switch {
		case v.Type == bson.TypeArray && !v.Doc().IsEmpty():
			w.doc, w.array, w.at = d, v.Doc().Iter(), 0
		case v.Type == bson.TypeArray:
			if w.u.Keep {
				return w.u.emit(d, bson.Value{}, bson.Null), nil
			}
		case !v.IsNullish() || w.u.Keep:
			if w.u.Index == "" {
				return d, nil
			}
			return setPath(d, w.u.indexing, bson.Null), nil
		}
	}
}

// at follows a path through documents only.
func at(d bson.Doc, path []string) bson.Value {
	v := bson.Document(d)
	for _, name := range path {
		if v.Type != bson.TypeDocument {
			return bson.Value{}
		}
		v = v.Doc().Lookup(name)
	}
	return v
}

// emit is d with the array replaced by v, and the index where it is wanted.
func (u *Unwind) emit(d bson.Doc, v, index bson.Value) bson.Doc {
	out := setPath(d, u.parts, v)
	if u.Index != "" {
		out = setPath(out, u.indexing, index)
	}
	return out
}

// setPath is d with v at a path; a Missing v takes the field away. What stands
// in the way of the path becomes a document.
func setPath(d bson.Doc, path []string, v bson.Value) bson.Doc {
	var b bson.Builder
	b.Reset(make([]byte, 0, len(d)+len(v.Data)+16))
	found := false
	for it := d.Iter(); it.Next(); {
		if it.Key != path[0] {
			b.Value(it.Key, it.Value)
			continue
		}
		found = true
		if len(path) == 1 {
			b.Value(it.Key, v)
			continue
		}
		inner := bson.Empty
		if it.Value.Type == bson.TypeDocument {
			inner = it.Value.Doc()
		}
		b.Doc(it.Key, setPath(inner, path[1:], v))
	}
	if !found && !v.IsMissing() {
		if len(path) == 1 {
			b.Value(path[0], v)
		} else {
			b.Doc(path[0], setPath(bson.Empty, path[1:], v))
		}
	}
	return b.Finish()
}
