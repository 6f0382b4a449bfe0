package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// splitPath checks the path of an operator and takes it apart.
func splitPath(path string) ([]string, error) {
	if path == "" {
		return nil, mongoerr.New(mongoerr.EmptyFieldName, "An empty update path is not valid.")
	}
	parts := strings.Split(path, ".")
	for _, p := range parts {
		if p == "" {
			return nil, mongoerr.New(mongoerr.EmptyFieldName,
				"The update path '%s' contains an empty field name, which is not allowed.", path)
		}
	}
	return parts, nil
}

// checkDynamic checks the places of $ and $[identifier] in a path.
func checkDynamic(path string, parts []string, filters *arrayFilters) error {
	positional := 0
	for _, p := range parts {
		if p == "$" {
			positional++
		}
	}
	if positional > 1 {
		return mongoerr.New(mongoerr.BadValue, "Too many positional (i.e. '$') elements found in path '%s'", path)
	}
	if parts[0] == "$" {
		return mongoerr.New(mongoerr.BadValue, "Cannot have positional (i.e. '$') element in the first position in path '%s'", path)
	}
	for i, p := range parts {
		id, ok := identifier(p)
		if !ok {
			continue
		}
		if i == 0 {
			return mongoerr.New(mongoerr.BadValue,
				"Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '%s'", path)
		}
		if err := filters.use(id, path); err != nil {
			return err
		}
	}
	return nil
}

// identifier returns what stands between the brackets of $[identifier].
func identifier(part string) (id string, ok bool) {
	if strings.HasPrefix(part, "$[") && strings.HasSuffix(part, "]") {
		return part[2 : len(part)-1], true
	}
	return "", false
}

// isDynamic says whether a path has $ or $[identifier] in it.
func isDynamic(parts []string) bool {
	for _, p := range parts {
		if _, ok := identifier(p); ok || p == "$" {
			return true
		}
	}
	return false
}

// MayChange says whether the update can change what lies at, above or below a
// dotted path of an index. Numbers in either path are taken as array
// positions, which index paths leave out.
func (u *Update) MayChange(path string) bool {
	if u.modifiers == nil {
		return true
	}
	want := fieldNames(path)
	for _, have := range u.modifiers.touched {
		if n := min(len(have), len(want)); equalNames(have[:n], want[:n]) {
			return true
		}
	}
	return false
}

// fieldNames is a path without array positions.
func fieldNames(path string) []string {
	var names []string
	for p := range strings.SplitSeq(path, ".") {
		if _, ok := identifier(p); !ok && p != "$" && !bson.AllDigits(p) {
			names = append(names, p)
		}
	}
	return names
}

func equalNames(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
