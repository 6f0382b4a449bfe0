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
	fails   string // the error that the page shows below it, "" for none
}

// forMongosh begins what a page has for mongosh.
var forMongosh = regexp.MustCompile(`^(> |(db|sh|rs)\.)`)

// forShell begins what a page has for a shell.
var forShell = regexp.MustCompile(`^(mayfly|openssl|mkdir|chmod|mongosh|gpg|sha256sum|dpkg|systemctl|podman|docker|helm|kubectl|make|go|ln|open|MONGOMS_\w+=\S*|MAYFLY_\w+=\S*) `)

// forNobody begins what a page has for no shell: what a command prints, and text of files and of other
// programs.
var forNobody = regexp.MustCompile(`^(mayfly: |\d+ records of the log|\[\{rule: |histogram: |The replica set |WARNING  |The rule removes |What to do: |\{"t":…|` + // printed
	`SELECT |const client = |` + // DuckDB, a program
	`scrape_configs:|- job_name: |static_configs:|- targets: |labels: |rule_files: )`) // Prometheus

// commandsOf reads the commands of a page.
func commandsOf(t *testing.T, page string) []command {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../docs/operate", page))
	if err != nil {
		t.Fatal(err)
	}
	all, unknown := readPage(string(b))
	for _, line := range unknown {
		t.Errorf("%s: no rule says whether this is a command: %s", page, line)
	}
	return all
}

// readPage reads the indented lines of a page. unknown are those of which nobody says what they are.
func readPage(page string) (all []command, unknown []string) {
	section, open := "", 0
	for line := range strings.Lines(page) {
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
			all[len(all)-1].fails = text
		case !forNobody.MatchString(text):
			unknown = append(unknown, text)
		}
	}
	return all, unknown
}

// TestReadPage: what may be a command is not taken for output.
func TestReadPage(t *testing.T) {
	all, unknown := readPage("# A\n    mayfly serve\n    > db.c.insertOne({\n        a: 1})\n    MongoServerError: no\n    What to do: nothing\n    curl localhost\n")
	if len(all) != 2 || all[1].text != "db.c.insertOne({ a: 1})" || all[1].fails != "MongoServerError: no" || all[1].section != "A" || len(unknown) != 1 || unknown[0] != "curl localhost" {
		t.Errorf("%+v, %q", all, unknown)
	}
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
