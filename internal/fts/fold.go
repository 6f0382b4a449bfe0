package fts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Options say what a search distinguishes.
type Options struct {
	CaseSensitive      bool
	DiacriticSensitive bool
}

// lower is s in lower case, as the index version and the language have it.
func (l *Language) lower(s string, version int) string {
	switch {
	case version < V3:
		return lowerASCII(s)
	case l.name == "turkish":
		return strings.ToLowerSpecial(unicode.TurkishCase, s)
	}
	return strings.ToLower(s)
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// plain is s without diacritics.
func plain(s string) string {
	if isASCII(s) {
		return s
	}
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) || r > unicode.MaxASCII && unicode.Is(unicode.Diacritic, r) && !unicode.IsLetter(r) {
			return -1
		}
		return r
	}, norm.NFD.String(s)))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Fold is s without what o does not distinguish, for phrases.
func (l *Language) Fold(s string, version int, o Options) string {
	if !o.CaseSensitive {
		s = l.lower(s, version)
	}
	if version >= V3 && !o.DiacriticSensitive {
		s = plain(s)
	}
	return s
}
