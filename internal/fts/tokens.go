package fts

import (
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
)

// Tokens yields the stems of the words of s that are no stop words, in order:
// without case and diacritics but for what o distinguishes.
func (l *Language) Tokens(s string, version int, o Options) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range l.words(s, version) {
			if term, ok := l.term(word, version, o); ok && !yield(term) {
				return
			}
		}
	}
}

// term is the stem of a word, unless that is a stop word.
func (l *Language) term(word string, version int, o Options) (term string, ok bool) {
	low := l.lower(word, version)
	if l.stop()[low] {
		return "", false
	}
	if !o.CaseSensitive {
		word = low
	}
	// Stemmers know diacritics, so these go afterwards.
	if l.stem != nil {
		env := snowballstem.NewEnv(word)
		l.stem(env)
		word = env.Current()
	}
	if version >= V3 && !o.DiacriticSensitive {
		word = plain(word)
	}
	return word, word != ""
}

// words yields the stretches of s between delimiters.
func (l *Language) words(s string, version int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			start := l.skip(s, version, true)
			s = s[start:]
			end := l.skip(s, version, false)
			if end > 0 && !yield(s[:end]) {
				return
			}
			s = s[end:]
		}
	}
}

// skip is how many bytes at the beginning of s are delimiters, or are none.
func (l *Language) skip(s string, version int, delimiters bool) int {
	for i, r := range s {
		if l.delimits(r, version) != delimiters {
			return i
		}
	}
	return len(s)
}

// delimits reports whether r stands between words. In English an apostrophe is
// part of a word.
func (l *Language) delimits(r rune, version int) bool {
	switch {
	case r == '\'':
		return l.name != "english"
	case r < utf8.RuneSelf:
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_')
	case version < V3:
		return false
	}
	return unicode.In(r, unicode.Dash, unicode.Hyphen, unicode.Pattern_Syntax, unicode.Quotation_Mark,
		unicode.Terminal_Punctuation, unicode.White_Space, unicode.Cc)
}

// Weigh adds to scores what each term of a field contributes: weight times how
// often it stands there, each time counting half as much as the time before,
// and times how much of the field it makes up.
func (l *Language) Weigh(s string, version int, weight float64, scores map[string]float64) {
	type tally struct{ count, frequency, next float64 }
	terms := map[string]*tally{}
	total := 0.0
	for term := range l.Tokens(s, version, Options{}) {
		t := terms[term]
		if t == nil {
			t = &tally{next: 1}
			terms[term] = t
		}
		t.count++
		t.frequency += t.next
		t.next /= 2
		total++
	}
	for term, t := range terms {
		share := 0.5*t.count/total + 0.5
		whole := 1.0
		if len(term) == len(s) && l.lower(s, version) == term {
			whole = 1.1 // the field is nothing but the term
		}
		scores[term] += weight * t.frequency * share * whole
	}
}
