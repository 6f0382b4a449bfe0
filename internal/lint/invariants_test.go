package lint

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named invariants stand in a doc.go as "//   - name: what holds", or with the
// package that upholds it: "name (package catalog): …".
var listed = regexp.MustCompile(`(?m)^  - ([a-z][a-z-]*)(?: \(package ([a-z/]+)\))?:`)

// TestInvariantsAreCited holds that each name in a list of "# Invariants" is
// cited by the code that upholds it: "invariant name" in a comment, or "name: …"
// in the message of a check.
func TestInvariantsAreCited(t *testing.T) {
	type name struct{ pkg, name string }
	open := map[name]string{}
	text := map[string]string{}
	for _, f := range sources(t) {
		if f.pkg == "" || f.test {
			continue
		}
		if _, list, ok := strings.Cut(f.ast.Doc.Text(), "\n# Invariants\n"); ok && filepath.Base(f.path) == "doc.go" {
			all := listed.FindAllStringSubmatch(list, -1)
			if len(all) == 0 {
				t.Errorf("%s: no names in the list of invariants", f.path)
			}
			for _, m := range all {
				pkg := f.pkg
				if m[2] != "" {
					pkg = m[2]
				}
				open[name{pkg, m[1]}] = f.path
			}
		}
		if filepath.Base(f.path) == "doc.go" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				text[f.pkg] += " invariant " + strings.Trim(lit.Value, "\"`")
			}
			return true
		})
		for _, c := range f.ast.Comments {
			text[f.pkg] += " " + strings.Join(strings.Fields(c.Text()), " ")
		}
	}
	for n, path := range open {
		if !regexp.MustCompile(`(?i)invariants? ` + n.name + `([^a-z-]|$)`).MatchString(text[n.pkg]) {
			t.Errorf("%s: no code of package %s cites the invariant %s", path, n.pkg, n.name)
		}
	}
}

// TestRequiresIsChecked holds that what a comment says a function REQUIRES is
// checked in it. What cannot be checked is said in other words.
func TestRequiresIsChecked(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.pkg == "invariant" {
			continue
		}
		for _, c := range f.ast.Comments {
			if !strings.Contains(strings.Join(strings.Fields(c.Text()), " "), "REQUIRES:") {
				continue
			}
			if fn := documented(f.ast, c); fn == nil || !checks(fn) {
				t.Errorf("%s: REQUIRES: is not the comment of a function that checks it", f.fset.Position(c.Pos()))
			}
		}
	}
}

// documented is the function that a comment is of, or nil.
func documented(f *ast.File, c *ast.CommentGroup) *ast.FuncDecl {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Doc == c {
			return fn
		}
	}
	return nil
}

// checks says whether a function calls package invariant, or a method that does
// so by its name: requireClosed, checkInside.
func checks(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			found = found || x != nil && x.Name == "invariant" || strings.HasPrefix(s.Sel.Name, "require") || strings.HasPrefix(s.Sel.Name, "check")
		}
		return true
	})
	return found
}
