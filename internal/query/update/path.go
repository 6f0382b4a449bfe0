package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// splitPath checks the path of an operator and appends its names to parts.
func splitPath(parts []string, path string) ([]string, error) {
	if path == "" {
		return nil, mongoerr.New(mongoerr.EmptyFieldName, "An empty update path is not valid.")
	}
	for p := range strings.SplitSeq(path, ".") {
		if p == "" {
			return nil, mongoerr.New(mongoerr.EmptyFieldName,
				"The update path '%s' contains an empty field name, which is not allowed.", path)
		}
		parts = append(parts, p)
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

// isDynamic reports whether a path has $ or $[identifier] in it.
func isDynamic(parts []string) bool {
	for _, p := range parts {
		if _, ok := identifier(p); ok || p == "$" {
			return true
		}
	}
	return false
}
