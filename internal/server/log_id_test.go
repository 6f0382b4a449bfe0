package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ownID is the id of a log line that mongod does not have.
var ownID = regexp.MustCompile(`(?:"id", |log\w+ += )(9[01]00\d{3})\b`)

// An id leads to one place: it stands once in all of the code.
func TestLogIDsAreUnique(t *testing.T) {
	places := map[string]string{}
	for _, root := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range ownID.FindAllSubmatch(text, -1) {
				id := string(m[1])
				if places[id] != "" {
					t.Errorf("%s is in %s and in %s", id, places[id], path)
				}
				places[id] = path
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(places) < 40 {
		t.Errorf("only %d ids were found", len(places))
	}
}
