package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// formatPage says what lies on disk.
const formatPage = "../../docs/format/README.md"

// TestFormatNamesKeyspaces holds that the page on the format names each keyspace
// that storage has, and where ranges of them begin.
func TestFormatNamesKeyspaces(t *testing.T) {
	page := formatText(t)
	files, err := filepath.Glob("../storage/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range idents(f) {
			found++
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s does not name %s", formatPage, name)
			}
		}
	}
	if found < 9 {
		t.Errorf("%d constants of type Ident were found in storage", found)
	}
}

// idents are the exported constants of type Ident that a file declares.
func idents(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Ident" && v.Names[0].IsExported() {
				names = append(names, v.Names[0].Name)
			}
		}
	}
	return names
}

// source is how the page names a file with or without an extension.
var source = regexp.MustCompile("`(internal/[A-Za-z0-9_./]+)`")

// TestFormatNamesGoldens holds that the page names each file of golden bytes that is
// called stored, and that all files that it names are there.
func TestFormatNamesGoldens(t *testing.T) {
	page, found := formatText(t), 0
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == "stored" {
			found++
			if name := strings.TrimPrefix(filepath.ToSlash(path), "../../"); !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s does not name %s", formatPage, name)
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files, %v", found, err)
	}
	for _, m := range source.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Errorf("%s: %v", formatPage, err)
		}
	}
}

func formatText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
