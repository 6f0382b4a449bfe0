package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is how the documentation names a source file.
var named = regexp.MustCompile("`((?:internal|e2e|cmd)/[A-Za-z0-9_./]+\\.[a-z]+)`")

// linked is a link to another page.
var linked = regexp.MustCompile(`\]\(([^)#:]+\.md)\)`)

// TestDocsNameWhatIs holds that the files that the documentation names and
// links to exist.
func TestDocsNameWhatIs(t *testing.T) {
	const root = "../.."
	pages := []string{root + "/README.md", root + "/CONTRIBUTING.md", root + "/CHANGELOG.md"}
	err := filepath.WalkDir(root+"/docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		exists := func(path string) {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			exists(filepath.Join(root, string(m[1])))
		}
		for _, m := range linked.FindAllSubmatch(text, -1) {
			exists(filepath.Join(filepath.Dir(page), string(m[1])))
		}
	}
}
