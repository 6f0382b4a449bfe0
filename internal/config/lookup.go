package config

import (
	"slices"
	"strings"
)

// byPath finds the row for a path of the file, or nil.
func byPath(path string) *option {
	for i := range table {
		if table[i].path == path || strings.Contains(path, ".") && slices.Contains(table[i].aliases, path) {
			return &table[i]
		}
	}
	return nil
}

// refusalOf finds why a path of the file is refused, or nil.
func refusalOf(path string) *refusal {
	var found *refusal
	for i := range refused {
		r := &refused[i]
		if r.path == path {
			return r
		}
		if strings.HasSuffix(r.path, ".") && strings.HasPrefix(path, r.path) && (found == nil || len(found.path) < len(r.path)) {
			found = r
		}
	}
	return found
}

// componentOf finds the component that systemLog.component.….verbosity names.
func componentOf(path string) (string, bool) {
	name, ok := strings.CutPrefix(path, componentPrefix)
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, ".verbosity")
	return name, ok && slices.ContainsFunc(Components, func(c Component) bool { return c.Path == name })
}

const componentPrefix = "systemLog.component."

// isSection reports whether options, wanted or refused, lie below path.
func isSection(path string) bool {
	below := func(p string) bool { return strings.HasPrefix(p, path+".") }
	return slices.ContainsFunc(table, func(p option) bool { return below(p.path) || slices.ContainsFunc(p.aliases, below) }) ||
		slices.ContainsFunc(refused, func(r refusal) bool { return below(r.path) }) ||
		slices.ContainsFunc(Components, func(c Component) bool { return below(componentPrefix + c.Path + ".verbosity") })
}

// meant proposes the name of an option that differs little from an unknown
// one: a flag for a flag, which begins with two dashes, a path for a path.
func meant(name string) string {
	const far = 3
	best, distance := "", far
	for i := range table {
		for _, known := range []string{table[i].path, "--" + table[i].flag} {
			if strings.HasPrefix(name, "--") != strings.HasPrefix(known, "--") {
				continue
			}
			if d := edits(strings.ToLower(name), strings.ToLower(known)); d < distance && d < len(known)/2+1 {
				best, distance = known, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// edits counts the letters to add, drop or change between a and b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
