package fts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs testdata: "terms" prints the terms of each line with their
// scores, "query" parses each line as a search string.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			name, version := "english", V3
			c.MaybeScanArgs(t, "language", &name)
			c.MaybeScanArgs(t, "version", &version)
			o := Options{CaseSensitive: c.HasArg("case"), DiacriticSensitive: c.HasArg("diacritics")}
			l, ok := LanguageOf(name, version)
			if !ok {
				return "no such language\n"
			}
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				switch c.Cmd {
				case "terms":
					scores := map[string]float64{}
					l.Weigh(line, version, 1, scores)
					for i, term := range slices.Sorted(maps.Keys(scores)) {
						if i > 0 {
							out.WriteString(", ")
						}
						fmt.Fprintf(&out, "%s %.4g", term, scores[term])
					}
				case "query":
					q := ParseQuery(line, l, version, o)
					fmt.Fprintf(&out, "%v +%v -%v phrases %q -%q", q.Terms, slices.Sorted(maps.Keys(q.Positive)),
						slices.Sorted(maps.Keys(q.Negative)), q.Phrases, q.NegatedPhrases)
				}
				out.WriteString("\n")
			}
			return out.String()
		})
	})
}

// FuzzQuery looks for search strings and texts that fail.
func FuzzQuery(f *testing.F) {
	f.Add(`"a b" -c -"d e" f`, "Ça va İstanbul a'b")
	f.Fuzz(func(t *testing.T, search, text string) {
		for _, l := range []string{"english", "turkish", "none"} {
			for version := V1; version <= V3; version++ {
				l, _ := LanguageOf(l, version)
				m := ParseQuery(search, l, version, Options{CaseSensitive: version == V2}).NewMatcher(version == V3)
				m.Add(text, l)
				m.Matches()
			}
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	l, _ := LanguageOf("english", V3)
	text := strings.Repeat("The quick brown foxes were jumping over lazy dogs. ", 20)
	b.ReportAllocs()
	for b.Loop() {
		l.Weigh(text, V3, 1, map[string]float64{})
	}
}
