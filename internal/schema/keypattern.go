package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of a key pattern.
const (
	maxKeyPattern = 2048 // bytes of its BSON
	maxParts      = 32   // fields of a compound index
)

// wildcardName is the key pattern's name for every field.
const wildcardName = "$**"

// pluginOf returns the kind of index of a key pattern: the first string in it,
// "wildcard" where a number is at a wildcard path, else "".
func pluginOf(key bson.Doc) string {
	plugin := ""
	for name, v := range key.All() {
		switch {
		case v.Type == bson.TypeString:
			if plugin == "" {
				plugin = v.Str()
			}
		case isWildcardPath(name):
			return pluginWildcard
		}
	}
	return plugin
}

func isWildcardPath(path string) bool {
	return path == wildcardName || strings.HasSuffix(path, "."+wildcardName)
}

// isIDPattern reports whether key is the pattern of the index on _id, or one that
// the server refuses because it is nearly that: {_id: 1} and {_id: -1}, with
// the number truncated.
func isIDPattern(key bson.Doc) bool {
	name, v := key.First()
	if name != "_id" || key.Len() != 1 || !v.IsNumber() {
		return false
	}
	i := bson.ClampToInt64(v)
	return i == 1 || i == -1
}

// validateKeyPattern checks the pattern of a new index. Errors: 67, 2 for a
// field that is named twice, 13103 for more than 32 fields, 31303 for more
// than one hashed field, 7246201 and following for wildcard patterns.
func validateKeyPattern(key bson.Doc) error {
	if len(key) > maxKeyPattern {
		return cannotCreate("Index key pattern too large.")
	}
	if key.IsEmpty() {
		return cannotCreate("Index keys cannot be empty.")
	}
	seen := map[string]bool{}
	for name := range key.All() {
		if seen[name] {
			return mongoerr.New(mongoerr.BadValue, "The field '%s' appears multiple times in the index key pattern %s", name, key)
		}
		seen[name] = true
	}
	plugin := pluginOf(key)
	if _, ok := kinds[plugin]; !ok {
		return cannotCreate("Unknown index plugin '%s'", plugin)
	}
	for name, v := range key.All() {
		if err := validatePart(name, v, plugin); err != nil {
			return err
		}
	}
	if n := key.Len(); n > maxParts {
		return mongoerr.New(mongoerr.Code(13103), "too many compound keys")
	}
	return kinds[plugin].validatePattern(key)
}

func validatePart(name string, v bson.Value, plugin string) error {
	switch {
	case v.IsNumber():
		if v.IsNaN() {
			return cannotCreate("Values in the index key pattern cannot be NaN.")
		}
		if bson.Equal(v, bson.Int32(0)) {
			return cannotCreate("Values in the index key pattern cannot be 0.")
		}
	case v.Type != bson.TypeString:
		return cannotCreate("Values in v:2 index key pattern cannot be of type %s. Only numbers > 0, numbers < 0, and strings are allowed.", v.Type)
	case v.Str() == pluginWildcard && !isWildcardPath(name):
		return mongoerr.New(mongoerr.Code(7246202), "A wildcard index needs a number at a path that ends in '$**', found '%s' at '%s'", v.Str(), name)
	case v.Str() == pluginWildcard:
		return cannotCreate("Unknown index plugin '%s'", v.Str())
	case v.Str() == "":
		return cannotCreate("Values in the index key pattern cannot be empty strings.")
	case v.Str() != plugin && plugin != pluginWildcard:
		return cannotCreate("Can't use more than one index plugin for a single index.")
	}
	if name == wildcardName && (v.IsNumber() || plugin == pluginText) {
		return nil
	}
	if name == "_fts" && plugin != pluginText {
		return cannotCreate("Index key contains an illegal field name: '_fts'")
	}
	return validatePath(name, plugin)
}

// validatePath checks that documents can have the path of an indexed field.
func validatePath(path, plugin string) error {
	if path == "" {
		return cannotCreate("Index keys cannot be an empty field.")
	}
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if part == "" {
			return cannotCreate("Index keys cannot contain an empty field.")
		}
		if part[0] != '$' {
			continue
		}
		dbRef := i > 0 && (part == "$db" || part == "$id" || part == "$ref")
		wildcard := i == len(parts)-1 && part == wildcardName && plugin == pluginWildcard
		if !dbRef && !wildcard {
			return cannotCreate("Index key contains an illegal field name: field name starts with '$'.")
		}
	}
	return nil
}

// parts splits a validated key pattern.
func parts(key bson.Doc) []Part {
	var ps []Part
	for name, v := range key.All() {
		p := Part{Path: name, Components: strings.Split(name, ".")}
		switch {
		case v.Type == bson.TypeString:
			p.Plugin = v.Str()
		case isWildcardPath(name):
			p.Plugin = pluginWildcard
		}
		p.Descending = v.IsNumber() && bson.Compare(v, bson.Int32(0)) < 0
		ps = append(ps, p)
	}
	return ps
}

func cannotCreate(format string, args ...any) error {
	return mongoerr.New(mongoerr.CannotCreateIndex, format, args...)
}
