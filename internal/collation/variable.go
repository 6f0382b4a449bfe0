package collation

import (
	"strings"
	"unicode"
)

// isVariable reports whether a character counts from strength 4 on where alternate
// is "shifted": spaces and, unless maxVariable is "space", punctuation.
func (c *Collator) isVariable(r rune) bool {
	if isSpace(r) {
		return true
	}
	return !c.opts.Space && (unicode.IsPunct(r) || unicode.Is(unicode.Zs, r))
}

// isSpace reports whether a character is of the group of spaces; those that do not
// break are with the punctuation.
func isSpace(r rune) bool {
	const noBreak, figure, narrow = '\u00a0', '\u2007', '\u202f'
	return unicode.IsSpace(r) && r != noBreak && r != figure && r != narrow
}

// dropVariable maps variable characters to none.
func (c *Collator) dropVariable(r rune) rune {
	if c.isVariable(r) {
		return -1
	}
	return r
}

// What stands at the fourth level for characters that are not variable.
const (
	levelKana  = 0xfd // of hiragana, in Japanese before katakana
	levelOther = 0xff
)

// appendQuaternary appends the fourth level: variable characters before the
// others, and in Japanese hiragana before katakana.
func (c *Collator) appendQuaternary(dst []byte, s string) []byte {
	japanese := strings.HasPrefix(c.opts.Locale, "ja")
	if !c.opts.Shifted && !japanese {
		return dst // all are the same there
	}
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Mn): // it counts for nothing, or with the one before
		case c.opts.Shifted && c.isVariable(r):
			dst = appendKey(append(dst, 1), &c.full, string(r))
			dst = append(dst, 0)
		case japanese && unicode.Is(unicode.Hiragana, r):
			dst = append(dst, levelKana)
		default:
			dst = append(dst, levelOther)
		}
	}
	return dst
}

// maxNumber is the number of digits of a number that digits are compared as;
// longer ones are several.
const maxNumber = 254

// splitNumbers puts a character that counts for nothing between the numbers
// that a long run of digits is.
func splitNumbers(s string) string {
	if len(s) <= maxNumber {
		return s
	}
	var b strings.Builder
	digits := 0
	for _, r := range s {
		switch {
		case !unicode.IsDigit(r):
			digits = 0
		case digits == maxNumber:
			b.WriteRune('\u2060')
			digits = 1
		default:
			digits++
		}
		b.WriteRune(r)
	}
	return b.String()
}
