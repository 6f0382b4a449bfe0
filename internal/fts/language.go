package fts

import (
	"embed"
	"strings"
	"sync"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/turkish"
)

// The versions of the text index.
const (
	V1 = 1
	V2 = 2
	V3 = 3
)

// Language is how words of one language are treated: "none" has neither stop
// words nor stems.
type Language struct {
	name string
	stem func(*snowballstem.Env) bool // nil for none
	stop func() map[string]bool
}

// Name is the language's name in English, in lower case.
func (l *Language) Name() string { return l.name }

//go:embed stopwords/*.txt
var stopFiles embed.FS

// languages are all languages by name and by ISO 639-1 code.
var languages = map[string]*Language{}

func init() {
	for _, l := range []struct {
		name, code string
		stem       func(*snowballstem.Env) bool
	}{
		{"none", "none", nil},
		{"danish", "da", danish.Stem}, {"dutch", "nl", dutch.Stem}, {"english", "en", english.Stem},
		{"finnish", "fi", finnish.Stem}, {"french", "fr", french.Stem}, {"german", "de", german.Stem},
		{"hungarian", "hu", hungarian.Stem}, {"italian", "it", italian.Stem}, {"norwegian", "nb", norwegian.Stem},
		{"portuguese", "pt", portuguese.Stem}, {"romanian", "ro", romanian.Stem}, {"russian", "ru", russian.Stem},
		{"spanish", "es", spanish.Stem}, {"swedish", "sv", swedish.Stem}, {"turkish", "tr", turkish.Stem},
	} {
		language := &Language{name: l.name, stem: l.stem}
		language.stop = sync.OnceValue(language.stopWords)
		languages[l.name], languages[l.code] = language, language
	}
}

// LanguageOf finds a language by its name or code, whatever their case; for
// version 1, which knows names in lower case only, other names are none.
func LanguageOf(name string, version int) (l *Language, ok bool) {
	if version == V1 {
		l, ok = languages[name]
		if !ok {
			return languages["none"], true
		}
		return l, true
	}
	l, ok = languages[strings.ToLower(name)]
	return l, ok
}

func (l *Language) stopWords() map[string]bool {
	words := map[string]bool{}
	if text, err := stopFiles.ReadFile("stopwords/" + l.name + ".txt"); err == nil {
		for _, w := range strings.Fields(string(text)) {
			words[w] = true
		}
	}
	return words
}
