package pipeline

import (
	"context"
	"slices"
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
	keep     []string // the fields that are read behind the stage; nil: all
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

	base []byte // of doc, where fields are left out
	out  []byte // of what was delivered last
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
				return w.emit(w.doc, w.array.Value, bson.Int64(w.at-1)), nil
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
			w.doc, w.array, w.at = w.narrow(d), v.Doc().Iter(), 0
		case v.Type == bson.TypeArray:
			if w.u.Keep {
				return w.emit(d, bson.Value{}, bson.Null), nil
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

// narrow returns d without unread fields.
func (w *unwinding) narrow(d bson.Doc) bson.Doc {
	if w.u.keep == nil {
		return d
	}
	w.base = new(bson.Builder).Reset(w.base[:0]).Only(d, w.u.keep).Finish()
	return w.base
}

// emit is d with the array replaced by v, and the index where it is wanted.
func (w *unwinding) emit(d bson.Doc, v, index bson.Value) bson.Doc {
	u := w.u
	if u.keep != nil && !slices.Contains(u.keep, u.parts[0]) {
		return w.indexed(d, index)
	}
	var b bson.Builder
	b.Reset(w.out[:0])
	writePath(&b, d, u.parts, v)
	w.out = b.Finish()
	return w.indexed(w.out, index)
}

func (w *unwinding) indexed(d bson.Doc, index bson.Value) bson.Doc {
	if w.u.Index == "" {
		return d
	}
	return setPath(d, w.u.indexing, index)
}

// setPath is d with v at a path; a Missing v takes the field away. What stands
// in the way of the path becomes a document.
func setPath(d bson.Doc, path []string, v bson.Value) bson.Doc {
	var b bson.Builder
	b.Reset(make([]byte, 0, len(d)+len(v.Data)+16))
	writePath(&b, d, path, v)
	return b.Finish()
}

// writePath writes what setPath returns.
func writePath(b *bson.Builder, d bson.Doc, path []string, v bson.Value) {
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
		b.OpenDoc(it.Key)
		writePath(b, inner, path[1:], v)
		b.Close()
	}
	if !found && !v.IsMissing() {
		if len(path) == 1 {
			b.Value(path[0], v)
		} else {
			b.OpenDoc(path[0])
			writePath(b, bson.Empty, path[1:], v)
			b.Close()
		}
	}
}
