package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds of what a browser loads, gzipped, in bytes: of the page with all its languages, and of
// the editor, which comes with the first text that is edited.
const (
	maxPage   = 120 << 10
	maxEditor = 160 << 10
)

// theEditor is how the path of the editor begins.
const theEditor = "/assets/codemirror-"

// asked is how an asset names another one.
var asked = regexp.MustCompile("[\"'(`]\\.?/?((?:assets/)?[\\w.-]+\\.(?:js|css|svg))[\"')`]")

// Every file that the page names is there, with its type; all of them together are no more than
// what a page may be.
func TestAssets(t *testing.T) {
	a, err := readAssets()
	if err != nil {
		t.Fatal(err)
	}
	seen, total, editor := map[string]bool{}, 0, 0
	var open func(at string)
	open = func(at string) {
		if seen[at] {
			return
		}
		seen[at] = true
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", at, w.Code, w.Header())
		}
		if strings.HasPrefix(at, theEditor) {
			editor += len(a.all[at].zipped)
		} else {
			total += len(a.all[at].zipped)
		}
		for _, m := range asked.FindAllStringSubmatch(w.Body.String(), -1) {
			name := m[1]
			if !strings.HasPrefix(name, "assets/") && at != "/" {
				name = "assets/" + name
			}
			open("/" + name)
		}
	}
	open("/")
	for at, one := range a.all {
		if !seen[at] {
			t.Errorf("nothing names %s", at)
		}
		if strings.Contains(string(one.plain), "<script>") || strings.Contains(string(one.plain), " style=\"") {
			t.Errorf("%s has what the policy forbids", at)
		}
	}
	if len(seen) < 4 || total > maxPage || editor == 0 || editor > maxEditor {
		t.Errorf("%d files of %d bytes, and an editor of %d, gzipped", len(seen), total, editor)
	}
	if first := string(a.all["/"].plain); strings.Contains(first, theEditor) {
		t.Errorf("the editor is loaded before a text is edited: %s", first)
	}
	w := httptest.NewRecorder()
	if a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/assets", nil)); w.Code != http.StatusNotFound {
		t.Errorf("a directory: %d", w.Code)
	}
}

// What a page shows is text: nothing in the sources makes HTML of it.
func TestSourcesMakeNoHTML(t *testing.T) {
	forbidden := regexp.MustCompile(`dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
	files := 0
	err := filepath.WalkDir("../../console/src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		if m := forbidden.Find(text); m != nil {
			t.Errorf("%s: %s", path, m)
		}
		return err
	})
	if err != nil || files < 10 {
		t.Fatal(files, err)
	}
}

// maxPictures bounds the pictures of the pages in docs, in bytes: a repository keeps each for ever.
const maxPictures = 700 << 10

// Each page that docs have a picture of is there in both themes and at two widths, small.
func TestPictures(t *testing.T) {
	files, err := filepath.Glob("../../docs/operate/console/*.png")
	if err != nil {
		t.Fatal(err)
	}
	seen, total := map[string]int{}, int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
		name, _, _ := strings.Cut(filepath.Base(file), "-")
		seen[name]++
	}
	for name, n := range seen {
		if n != 4 {
			t.Errorf("%d pictures of %s", n, name)
		}
	}
	if len(seen) < 7 || total > maxPictures {
		t.Errorf("pictures of %d pages, %d bytes", len(seen), total)
	}
}
