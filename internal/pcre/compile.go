package pcre

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"
)

const (
	// MaxPattern is the length in bytes up to which the server compiles a
	// pattern.
	MaxPattern = 16 << 10
	// matchTimeout bounds one match of the backtracking engine.
	matchTimeout = time.Second
)

// ErrLimit is returned by a match that gave up: too much backtracking.
var ErrLimit = errors.New("match limit exceeded")

// Regexp is a compiled pattern. It may be used by many goroutines at once.
type Regexp struct {
	text   string // the pattern without (*VERB)s
	flags  flags
	fast   *regexp.Regexp  // for yes and no; nil where only back can
	back   *regexp2.Regexp // exact positions; compiled when first needed
	once   sync.Once
	err    error
	groups int
	start  int  // as the translator's
	exact  bool // fast's positions are PCRE's too
}

// Compile compiles a pattern with options among i m s x u (ValidOption). The
// error is PCRE2's message for what is wrong with the pattern.
func Compile(pattern, options string) (*Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, errors.New("regular expression is too large")
	}
	r := &Regexp{text: pattern}
	for _, c := range options {
		r.flags.set(c, true)
	}
	if err := r.stripVerbs(); err != nil {
		return nil, err
	}
	t, err := translate(r.text, r.flags, forGo)
	if err != nil {
		return nil, err
	}
	r.groups, r.start = t.groups, t.start
	if !t.backtrack {
		r.fast, r.exact, err = compileGo(t.out.String())
		r.exact = r.exact && r.start == 0
		if err == nil {
			return r, nil
		}
		var e *syntax.Error
		if errors.As(err, &e) {
			if text, known := messages[e.Code]; known {
				return nil, errors.New(text)
			}
		}
	}
	return r, r.backtracking()
}

// messages gives PCRE2's words for the errors that both engines would find.
var messages = map[syntax.ErrorCode]string{
	syntax.ErrMissingRepeatArgument: "quantifier does not follow a repeatable item",
	syntax.ErrInvalidCharRange:      "range out of order in character class",
	syntax.ErrInvalidUTF8:           "UTF-8 error: illegal byte",
}

// ValidOption says whether c is a flag that $options takes.
func ValidOption(c rune) bool { return strings.ContainsRune("imsxu", c) }

// stripVerbs takes the (*VERB)s off the start of the pattern.
func (r *Regexp) stripVerbs() error {
	for strings.HasPrefix(r.text, "(*") {
		end := strings.IndexByte(r.text, ')')
		if end < 0 {
			return nil
		}
		switch verb := r.text[2:end]; verb {
		case "UCP":
			r.flags.unicode = true
		case "UTF", "UTF8", "LF", "BSR_UNICODE", "NO_AUTO_POSSESS", "NO_START_OPT", "NO_JIT", "NO_DOTSTAR_ANCHOR":
		default:
			return errors.New("(*VERB) not recognized or malformed")
		}
		r.text = r.text[end+1:]
	}
	return nil
}

// compileGo compiles a translated pattern. A $ outside multi-line mode also
// matches in front of a newline that ends the text; where nothing follows the
// $, taking the newline into the match is the same for yes and no. Otherwise
// Go's engine cannot do it.
func compileGo(source string) (re *regexp.Regexp, exact bool, err error) {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, false, err
	}
	dollars, tail := widenDollars(tree, true)
	if !tail {
		return nil, false, errors.New("a $ inside the pattern")
	}
	if dollars > 0 {
		source = tree.String()
	}
	re, err = regexp.Compile(source)
	return re, dollars == 0, err
}

// widenDollars replaces each $ at a possible end of the match by \n?\z. It
// returns their number, and false if there is one elsewhere.
func widenDollars(re *syntax.Regexp, tail bool) (n int, ok bool) {
	if re.Op == syntax.OpEndText && re.Flags&syntax.WasDollar != 0 {
		newline := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\n'}}
		end := &syntax.Regexp{Op: syntax.OpEndText, Flags: re.Flags &^ syntax.WasDollar}
		*re = syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{
			{Op: syntax.OpQuest, Sub: []*syntax.Regexp{newline}}, end,
		}}
		return 1, tail
	}
	for i, sub := range re.Sub {
		at := tail
		switch re.Op {
		case syntax.OpConcat:
			at = tail && i == len(re.Sub)-1
		case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
			at = false
		}
		m, ok := widenDollars(sub, at)
		if n += m; !ok {
			return n, false
		}
	}
	return n, true
}

// backtracking compiles the pattern for the other engine.
func (r *Regexp) backtracking() error {
	r.once.Do(func() {
		t, err := translate(r.text, r.flags, forBacktracking)
		if err != nil {
			r.err = err
			return
		}
		options := []regexp2.CompileOption{regexp2.OptionMaintainCaptureOrder()}
		if !r.flags.unicode {
			options = append(options, regexp2.RE2)
		}
		r.back, err = regexp2.Compile(t.out.String(), options...)
		if err != nil {
			r.err = fmt.Errorf("%s", firstLine(err.Error()))
			return
		}
		r.back.MatchTimeout = matchTimeout
	})
	return r.err
}

func firstLine(s string) string { s, _, _ = strings.Cut(s, "\n"); return s }

// Groups is the number of capture groups.
func (r *Regexp) Groups() int {
	if r.start > 0 {
		return r.groups - 1
	}
	return r.groups
}

// Match says whether the pattern matches somewhere in s. The only error is
// ErrLimit.
func (r *Regexp) Match(s string) (bool, error) {
	if r.fast != nil {
		return r.fast.MatchString(s), nil
	}
	ok, err := r.back.MatchString(s)
	if err != nil {
		return false, ErrLimit
	}
	return ok, nil
}

// Find returns the first match in s at or after the byte from, as byte offsets
// of the whole match and of each group (start, end, start, end …; -1 for a
// group that took no part), or nil.
func (r *Regexp) Find(s string, from int) ([]int, error) {
	if from == 0 && r.fast != nil && r.exact {
		return r.fast.FindStringSubmatchIndex(s), nil
	}
	if err := r.backtracking(); err != nil {
		return nil, err
	}
	m, err := r.back.FindStringMatchStartingAt(s, from)
	if err != nil {
		return nil, ErrLimit
	}
	if m == nil {
		return nil, nil
	}
	return r.bytes(m, runeOffsets(s)), nil
}

// runeOffsets lists the byte at which each rune of s starts, and len(s).
func runeOffsets(s string) []int {
	offsets := make([]int, 0, len(s)+1)
	for i := range s {
		offsets = append(offsets, i)
	}
	return append(offsets, len(s))
}
