package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOptionsPage holds that docs/operate/options.md is the table of options;
// -rewrite writes it anew.
func TestOptionsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Options of mayfly serve and mayfly router\n\nGenerated from the table in `internal/config/table.go` by its test (`go test ./internal/config -rewrite`).\n" +
		"The last column says which of the two does not take an option, and why.\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | in the file | variable | default | | not of |\n|---|---|---|---|---|---|\n", s.title)
		for i := range table {
			p := &table[i]
			if word, _, _ := strings.Cut(p.path, "."); word != s.prefix || p.help == "" {
				continue
			}
			path, variable := "`"+p.path+"`", "`"+p.env()+"`"
			if p.path == "config" {
				path = ""
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s | %s |\n", p.flag, path, variable, p.text, p.help, notOf(p))
		}
	}
	const page = "../../docs/operate/options.md"
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s is not the table of options (%v); write it anew with -rewrite", page, err)
	}
}

// notOf says which command does not take an option, and why.
func notOf(p *option) string {
	switch {
	case p.excluded(true) != "":
		return "`mayfly router`: " + p.excluded(true)
	case p.excluded(false) != "":
		return "`mayfly serve`"
	}
	return ""
}
