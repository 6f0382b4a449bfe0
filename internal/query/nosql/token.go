package nosql

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokName
	tokParameter // text without the @
	tokNumber
	tokString // text unescaped
	tokSymbol
)

type token struct {
	kind       tokenKind
	text       string
	start, end int
	upper      string // of a name, for keywords
}

// is reports whether t is that symbol, or that keyword.
func (t token) is(s string) bool {
	return t.kind == tokSymbol && t.text == s || t.kind == tokName && t.upper == s
}

func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "<EOF>"
	case tokParameter:
		return "@" + t.text
	}
	return t.text
}

// symbols, the longer before those they begin with.
var symbols = []string{
	"!=", "<>", "<=", ">=", "??", "||", "<<", ">>", ">>>", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "=", "<", ">", "+", "-", "*", "/",
	"%", "&", "|", "^", "~",
}

// tokens splits a query. Errors: SC1010 for what is no token.
func tokens(text string) ([]token, error) {
	var out []token
	for i := 0; ; {
		i = skipBlanks(text, i)
		if i >= len(text) {
			return append(out, token{kind: tokEnd, start: len(text), end: len(text)}), nil
		}
		t, err := nextToken(text, i)
		if err != nil {
			return nil, err
		}
		i = t.end
		out = append(out, t)
	}
}

// skipBlanks passes over white space and -- comments.
func skipBlanks(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.IsSpace(r):
			i += n
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return len(text)
			}
			i += end
		default:
			return i
		}
	}
	return i
}

func nextToken(text string, i int) (token, error) {
	c := text[i]
	switch {
	case c == '\'' || c == '"':
		return stringToken(text, i)
	case c >= '0' && c <= '9' || c == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
		return numberToken(text, i), nil
	case c == '@':
		end := nameEnd(text, i+1)
		if end > i+1 {
			return token{kind: tokParameter, text: text[i+1 : end], start: i, end: end}, nil
		}
	}
	if end := nameEnd(text, i); end > i {
		return token{kind: tokName, text: text[i:end], upper: strings.ToUpper(text[i:end]), start: i, end: end}, nil
	}
	best := ""
	for _, s := range symbols {
		if len(s) > len(best) && strings.HasPrefix(text[i:], s) {
			best = s
		}
	}
	if best != "" {
		return token{kind: tokSymbol, text: best, start: i, end: i + len(best)}, nil
	}
	_, n := utf8.DecodeRuneInString(text[i:])
	bad := token{text: text[i : i+n], start: i, end: i + n}
	return token{}, errorAt(codeToken, bad, "Syntax error, invalid token '%s'.", bad.text)
}

func nameEnd(text string, i int) int {
	from := i
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == from || !unicode.IsDigit(r)) {
			break
		}
		i += n
	}
	return i
}

func numberToken(text string, i int) token {
	end := i
	digits := func() {
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
	}
	if strings.HasPrefix(text[i:], "0x") || strings.HasPrefix(text[i:], "0X") {
		end += 2
		for end < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[end]) >= 0 {
			end++
		}
		return token{kind: tokNumber, text: text[i:end], start: i, end: end}
	}
	digits()
	if end < len(text) && text[end] == '.' {
		end++
		digits()
	}
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		mark := end
		end++
		if end < len(text) && (text[end] == '+' || text[end] == '-') {
			end++
		}
		if from := end; true {
			if digits(); end == from {
				end = mark
			}
		}
	}
	return token{kind: tokNumber, text: text[i:end], start: i, end: end}
}

// escapes are the characters after a backslash, but for u.
var escapes = map[byte]byte{'\'': '\'', '"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func stringToken(text string, i int) (token, error) {
	quote := text[i]
	var b strings.Builder
	for j := i + 1; j < len(text); {
		switch c := text[j]; {
		case c == quote:
			return token{kind: tokString, text: b.String(), start: i, end: j + 1}, nil
		case c == '\\' && j+1 < len(text) && text[j+1] == 'u':
			r, n := unicodeEscape(text[j:])
			if n == 0 {
				bad := token{text: text[i : j+2], start: i, end: j + 2}
				return token{}, errorAt(codeToken, bad, "Syntax error, invalid string literal token '%s'.", bad.text)
			}
			b.WriteRune(r)
			j += n
		case c == '\\' && j+1 < len(text):
			e, known := escapes[text[j+1]]
			if !known {
				e = text[j+1]
			}
			b.WriteByte(e)
			j += 2
		default:
			b.WriteByte(c)
			j++
		}
	}
	bad := token{text: text[i:], start: i, end: len(text)}
	return token{}, errorAt(codeToken, bad, "Syntax error, invalid string literal token '%s'.", bad.text)
}

// unicodeEscape reads \u and four hexadecimal digits, twice if they are a
// pair; n is 0 if it is malformed.
func unicodeEscape(s string) (r rune, n int) {
	hi, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if lo, ok := hex4(s[6:]); ok && hi >= 0xD800 && hi < 0xDC00 && lo >= 0xDC00 && lo < 0xE000 {
		return (hi-0xD800)<<10 + (lo - 0xDC00) + 0x10000, 12
	}
	return hi, 6
}

func hex4(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[2:6]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}
