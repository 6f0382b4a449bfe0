package schema

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// wildcardFields are the paths that the key and the projection of a compound
// wildcard index name, in components and sorted.
type wildcardFields struct {
	key, in, out [][]string
}

// newWildcardFields reads them; ok is false if the projection has values
// that are neither numbers nor bools.
func newWildcardFields(key, projection bson.Doc) (f wildcardFields, ok bool) {
	for name := range key.All() {
		if !isWildcardPath(name) {
			f.key = append(f.key, strings.Split(name, "."))
		}
	}
	ok = f.project("", projection)
	for _, paths := range [][][]string{f.key, f.in, f.out} {
		slices.SortFunc(paths, slices.Compare)
	}
	return f, ok
}

func (f *wildcardFields) project(prefix string, d bson.Doc) bool {
	for name, v := range d.All() {
		switch {
		case v.Type == bson.TypeDocument:
			if !f.project(prefix+name+".", v.Doc()) {
				return false
			}
		case v.Type != bson.TypeBool && !v.IsNumber():
			return false
		case v.Truthy():
			f.in = append(f.in, strings.Split(prefix+name, "."))
		default:
			f.out = append(f.out, strings.Split(prefix+name, "."))
		}
	}
	return true
}

// validate makes sure that no ordinary field of the key is under the wildcard
// as well. Errors: 7246200 for projected paths one under the other, 7246208 for
// a field of the key that is projected, 7246209 and 7246210 for one that is not
// excluded, 7246211 for paths put in and left out.
func (f *wildcardFields) validate() error {
	for _, paths := range [][][]string{f.in, f.out} {
		for i := 1; i < len(paths); i++ {
			if under(paths[i-1], paths[i]) || under(paths[i], paths[i-1]) {
				return mongoerr.New(mongoerr.Code(7246200), "Fields in Wildcard Projection cannot overlap, however '%s' is overlapped with '%s'",
					strings.Join(paths[i-1], "."), strings.Join(paths[i], "."))
			}
		}
	}
	in, out := slices.DeleteFunc(slices.Clone(f.in), isID), slices.DeleteFunc(slices.Clone(f.out), isID)
	switch {
	case len(in) > 0 && len(out) > 0:
		return mongoerr.New(mongoerr.Code(7246211),
			"Inclusion and exclusion statements cannot combine in the wildcardProjection with an exception of explicitly including _id field")
	case len(out) > 0 || len(f.in) == 0:
		return f.excluded()
	}
	return f.included()
}

// included makes sure that a projection that puts paths in puts in no field of
// the key.
func (f *wildcardFields) included() error {
	for _, field := range f.key {
		for _, path := range f.in {
			if under(path, field) {
				return mongoerr.New(mongoerr.Code(7246208),
					"Index Key and Wildcard Projection cannot contain overlapping fields, however '%s' index field is overlapping with '%s' wildcardProjection path.",
					strings.Join(field, "."), strings.Join(path, "."))
			}
		}
	}
	return nil
}

// excluded makes sure that a projection that leaves paths out leaves out all
// fields of the key. The code reports whether a path left out sorts after the
// field.
func (f *wildcardFields) excluded() error {
	for _, field := range f.key {
		if slices.ContainsFunc(f.out, func(path []string) bool { return under(path, field) }) {
			continue
		}
		code := mongoerr.Code(7246210)
		if slices.Compare(f.out[len(f.out)-1], field) >= 0 {
			code = 7246209
		}
		return mongoerr.New(code, "wildcardProjection paths must exclude all regular index fields, however '%s' is not excluded.", strings.Join(field, "."))
	}
	return nil
}

// under reports whether path is field or above it.
func under(path, field []string) bool {
	return len(path) <= len(field) && slices.Equal(path, field[:len(path)])
}

// isID reports whether path is _id, which a projection of either kind may name.
func isID(path []string) bool { return len(path) == 1 && path[0] == "_id" }
