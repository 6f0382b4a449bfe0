package fts

import (
	"strings"
	"unicode/utf8"
)

// Query is a parsed search string.
type Query struct {
	Language *Language
	Version  int
	Options  Options
	// Terms are looked up in the index, each once, in the order in which they
	// stand: a document must have one of them.
	Terms []string
	// Positive and Negative are the terms with what Options distinguish.
	Positive, Negative map[string]bool
	// Phrases must all be there, NegatedPhrases must not.
	Phrases, NegatedPhrases []string
}

// ParseQuery parses a search string: words, "phrases", and with a hyphen in
// front words and phrases that must not be there.
func ParseQuery(search string, l *Language, version int, o Options) *Query {
	q := &Query{Language: l, Version: version, Options: o, Positive: map[string]bool{}, Negative: map[string]bool{}}
	p := queryParser{q: q, afterSpace: true}
	for len(search) > 0 {
		n := l.skip(search, version, false)
		if n > 0 {
			p.word(search[:n])
			search = search[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(search)
		p.delimiter(r, search[:size])
		search = search[size:]
	}
	return q
}

// queryParser is the state of a ParseQuery.
type queryParser struct {
	q          *Query
	afterSpace bool // the last character was one, or there was none
	negated    bool // a hyphen stands before what comes
	quoted     bool // within a phrase
	phrase     strings.Builder
}

func (p *queryParser) word(w string) {
	p.afterSpace = false
	if p.quoted {
		p.phrase.WriteString(w)
		if p.negated {
			return // the words of a negated phrase may stand elsewhere
		}
	}
	p.q.add(w, p.negated)
	if !p.quoted {
		p.negated = false
	}
}

func (p *queryParser) delimiter(r rune, text string) {
	switch {
	case r == '"' && p.quoted:
		p.endPhrase()
	case r == '"':
		p.quoted = true
	case p.quoted:
		p.phrase.WriteString(text)
	case r == '-' && p.afterSpace:
		p.negated = true
	default:
		p.negated = false
	}
	p.afterSpace = r == ' ' || r >= '\t' && r <= '\r'
}

func (p *queryParser) endPhrase() {
	phrase := p.phrase.String()
	switch {
	case phrase == "":
	case p.negated:
		p.q.NegatedPhrases = append(p.q.NegatedPhrases, phrase)
	default:
		p.q.Phrases = append(p.q.Phrases, phrase)
	}
	p.phrase.Reset()
	p.quoted, p.negated = false, false
}

func (q *Query) add(word string, negated bool) {
	term, ok := q.Language.term(word, q.Version, q.Options)
	if !ok {
		return
	}
	if negated {
		q.Negative[term] = true
		return
	}
	q.Positive[term] = true
	term, ok = q.Language.term(word, q.Version, Options{})
	if !ok {
		return
	}
	for _, t := range q.Terms {
		if t == term {
			return
		}
	}
	q.Terms = append(q.Terms, term)
}

// Matcher decides about the strings of one document.
type Matcher struct {
	q        *Query
	positive bool   // a positive term was there, or none is asked for
	negative bool   // what must not be there was
	found    []bool // by Phrases
}

// NewMatcher begins a document. One that was found by its terms in an index has
// one of them, unless Options distinguish more than the index does.
func (q *Query) NewMatcher(inIndex bool) *Matcher {
	return &Matcher{q: q, positive: inIndex && q.Options == Options{}, found: make([]bool, len(q.Phrases))}
}

// Add adds one string, which has its own language.
func (m *Matcher) Add(s string, l *Language) {
	q := m.q
	if !m.positive || len(q.Negative) > 0 {
		for term := range l.Tokens(s, q.Version, q.Options) {
			m.positive = m.positive || q.Positive[term]
			m.negative = m.negative || q.Negative[term]
		}
	}
	if len(q.Phrases)+len(q.NegatedPhrases) == 0 {
		return
	}
	folded := q.Language.Fold(s, q.Version, q.Options)
	for i, phrase := range q.Phrases {
		m.found[i] = m.found[i] || strings.Contains(folded, q.Language.Fold(phrase, q.Version, q.Options))
	}
	for _, phrase := range q.NegatedPhrases {
		m.negative = m.negative || strings.Contains(folded, q.Language.Fold(phrase, q.Version, q.Options))
	}
}

// Matches reports whether the document whose strings were added matches.
func (m *Matcher) Matches() bool {
	if !m.positive || m.negative {
		return false
	}
	for _, found := range m.found {
		if !found {
			return false
		}
	}
	return true
}
