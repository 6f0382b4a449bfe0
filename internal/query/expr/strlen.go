package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerLength("$strLenBytes", 34473, func(s string) int { return len(s) })
	registerLength("$strLenCP", 34471, codePoints)
}

func registerLength(name string, code mongoerr.Code, length func(string) int) {
	registerUnary(name, func(env *Env, v bson.Value) (bson.Value, error) {
		if v.Type != bson.TypeString {
			return bson.Value{}, mongoerr.New(code, "%s requires a string argument, found: %s", name, v.Type)
		}
		return env.count(length(v.Str())), nil
	})
}

// isContinuation reports whether b continues a code point that began before it.
func isContinuation(b byte) bool { return b&0xC0 == 0x80 }

// codePoints counts the bytes that begin a code point.
func codePoints(s string) int {
	n := 0
	for i := range len(s) {
		if !isContinuation(s[i]) {
			n++
		}
	}
	return n
}

// pointLength is the length in bytes of the code point at the start of s, as
// its first byte tells, and at least 1.
func pointLength(s string) int {
	n := 1
	for n < len(s) && n < 4 && s[0] >= 0xC0 && isContinuation(s[n]) {
		n++
	}
	return n
}

// skipPoints is the number of bytes that n code points at the start of s take.
func skipPoints(s string, n int) int {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		at += pointLength(s[at:])
	}
	return at
}
