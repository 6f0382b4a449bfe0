package pcre

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"go.elara.ws/pcre/lib"
)

// MaxPattern is the length in bytes up to which the server compiles a pattern.
const MaxPattern = 16 << 10

// MatchError is what PCRE2 says of a match that it could not bring to an end.
type MatchError string

func (e MatchError) Error() string { return string(e) }

// ErrLimit is returned by a match that gave up: too much backtracking, or too
// much memory for what to go back to. ErrText is returned for a text that is
// not UTF-8.
const (
	ErrLimit = MatchError("match limit exceeded")
	ErrText  = MatchError("UTF-8 error: the text is not valid")
)

var errTooLong = errors.New("pattern string is longer than the limit set by the application")

// Regexp is a compiled pattern. It may be used by many goroutines at once.
type Regexp struct {
	pattern string
	options uint32
	groups  int
	fast    *regexp.Regexp // nil if only PCRE2 can
	exact   bool           // fast's positions are PCRE2's, not only its yes and no

	once sync.Once
	code *code // for exact positions; compiled when first needed
	err  error
}

// Compile compiles a pattern with options among i m s x u (ValidOption). The
// error is PCRE2's message for what is wrong with the pattern.
func Compile(pattern, options string) (*Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, errTooLong
	}
	r := &Regexp{pattern: pattern, options: lib.DPCRE2_UTF}
	for _, c := range options {
		r.options |= optionBits[c]
	}
	c, err := compileCode(pattern, r.options)
	if err != nil {
		return nil, err
	}
	r.groups = c.groups
	if source, ok := translate(pattern, options); ok {
		r.fast, r.exact = compileGo(source)
	}
	if r.fast == nil {
		err = r.backtracking()
	}
	return r, err
}

var optionBits = map[rune]uint32{
	'i': lib.DPCRE2_CASELESS, 'm': lib.DPCRE2_MULTILINE, 's': lib.DPCRE2_DOTALL, 'x': lib.DPCRE2_EXTENDED, 'u': lib.DPCRE2_UTF,
}

// ValidOption reports whether c is a flag that $options takes.
func ValidOption(c rune) bool { return strings.ContainsRune("imsxu", c) }

// backtracking compiles the pattern for PCRE2's matcher: with a call before
// each item, so that a match can be ended, unless that makes it too large.
func (r *Regexp) backtracking() error {
	r.once.Do(func() {
		r.code, r.err = compileCode(r.pattern, r.options|lib.DPCRE2_AUTO_CALLOUT)
		if r.err != nil {
			r.code, r.err = compileCode(r.pattern, r.options)
			if r.err == nil {
				r.code.unwatched = true
			}
		}
	})
	return r.err
}

// Groups is the number of capture groups.
func (r *Regexp) Groups() int { return r.groups }

// Match reports whether the pattern matches somewhere in s. Now and then a long
// match calls check, which may be nil, and ends with its error; other errors
// are MatchErrors.
func (r *Regexp) Match(s string, check func() error) (bool, error) {
	if !utf8.ValidString(s) {
		return false, ErrText
	}
	if r.fast != nil {
		return r.fast.MatchString(s), nil
	}
	found := false
	err := r.each(s, 0, check, func([]int) bool { found = true; return false })
	return found, err
}

// Find returns the first match in s at or after the byte from, as byte offsets
// of the whole match and of each group (start, end, start, end …; -1 for a
// group that took no part), or nil. Errors are Match's.
func (r *Regexp) Find(s string, from int, check func() error) ([]int, error) {
	if !utf8.ValidString(s) {
		return nil, ErrText
	}
	if from == 0 && r.fast != nil && r.exact {
		return r.fast.FindStringSubmatchIndex(s), nil
	}
	var at []int
	err := r.each(s, from, check, func(offsets []int) bool { at = offsets; return false })
	return at, err
}
