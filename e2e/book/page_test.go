package book

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command is one of a page: for a shell, or for mongosh.
type command struct {
	section string // the heading above it
	text    string
	mongosh bool
	fails   bool // the page shows an error below it
}

// forMongosh begins what a page has for mongosh.
var forMongosh = regexp.MustCompile(`^(> |(db|sh|rs)\.)`)

// forShell begins what a page has for a shell; a line that begins with neither of the two is what a
// command prints, or goes on with it.
var forShell = regexp.MustCompile(`^(mayfly|openssl|mkdir|chmod|mongosh|gpg|sha256sum|dpkg|systemctl|podman|docker|helm|kubectl|make|go|ln|open|MONGOMS_\w+=\S*|MAYFLY_\w+=\S*) `)

// commandsOf reads the indented lines of a page.
func commandsOf(t *testing.T, page string) (all []command) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../docs/operate", page))
	if err != nil {
		t.Fatal(err)
	}
	section, open := "", 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			section = strings.TrimLeft(line, "# ")
		case !strings.HasPrefix(line, "    ") || text == "":
		case open > 0: // it goes on
			last := &all[len(all)-1]
			last.text += " " + text
			open += depth(text)
		case forMongosh.MatchString(text):
			text = strings.TrimPrefix(text, "> ")
			all, open = append(all, command{section: section, text: text, mongosh: true}), depth(text)
		case forShell.MatchString(text) || text == "mongosh":
			all = append(all, command{section: section, text: text})
		case strings.HasPrefix(text, "MongoServerError"):
			all[len(all)-1].fails = true
		}
	}
	return all
}

// depth is how many brackets a line leaves open.
func depth(text string) int {
	n := 0
	for _, c := range text {
		if strings.ContainsRune("([{", c) {
			n++
		} else if strings.ContainsRune(")]}", c) {
			n--
		}
	}
	return n
}
