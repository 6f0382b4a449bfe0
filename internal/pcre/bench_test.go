package pcre

import (
	"strings"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ name, pattern, text string }{
		{"fast", `^[a-z]+\d`, "some1"},
		{"lookahead", `^(?!.*foo).*bar`, strings.Repeat("x", 60) + "bar"},
		{"backreference", `(\w+) \1`, "the quick brown fox jumps over over the lazy dog"},
		{"lookbehind", `(?<=\$)\d+`, "price is about $1234 or so"},
		{"atomic", `^(?>a+)b`, "aaaaaaaaaaaaaaab"},
		{"long", `foo(?=bar)`, strings.Repeat("lorem ipsum ", 1000) + "foobar"},
	} {
		b.Run(c.name, func(b *testing.B) {
			re, err := Compile(c.pattern, "")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if ok, err := re.Match(c.text, nil); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, pattern := range []string{`^[a-z]+\d`, `(\w+) \1`} {
		b.Run(pattern, func(b *testing.B) {
			for b.Loop() {
				if _, err := Compile(pattern, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
