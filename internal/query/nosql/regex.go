package nosql

import (
	"errors"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/pcre"
)

// maxPatterns bounds the regular expressions that a run keeps compiled.
const maxPatterns = 64

// patternKey is a regular expression with its modifiers.
type patternKey struct{ pattern, options string }

func init() {
	registerRegex("REGEXMATCH", 2, 3, func(re *pcre.Regexp, args []bson.Value) (bson.Value, error) {
		ok, err := re.Match(args[0].Str(), patience())
		return bson.Bool(ok), err
	})
	registerRegex("REGEXEXTRACT", 2, 4, regexExtract)
	registerRegex("REGEXEXTRACTALL", 2, 4, regexExtractAll)
	registerReplace("REGEXREPLACE", 1)
	registerReplace("REGEXREPLACEALL", -1)
}

// registerRegex registers a function of a text, a pattern and modifiers, which
// is undefined if one of them is no string.
func registerRegex(name string, min, max int, f func(re *pcre.Regexp, args []bson.Value) (bson.Value, error)) {
	register(name, min, max, func(env *env, args []bson.Value) (bson.Value, error) {
		if !allText(args[:min]) || len(args) > 2 && !isText(args[2]) {
			return bson.Value{}, nil
		}
		options := ""
		if len(args) > 2 {
			options = args[2].Str()
		}
		re, err := env.compile(name, args[1].Str(), options)
		if err != nil {
			return bson.Value{}, err
		}
		v, err := f(re, args)
		return v, unmatched(name, err)
	})
}

// maxChecks bounds one match, in pcre's checks: half a second of work.
const maxChecks = 10_000

// patience is a check that ends a match which has gone on for too long.
func patience() func() error {
	left := maxChecks
	return func() error {
		if left--; left < 0 {
			return pcre.ErrLimit
		}
		return nil
	}
}

// unmatched is the error of a match that failed: 400, as the pattern is the
// query's.
func unmatched(name string, err error) error {
	var told *Error
	switch {
	case err == nil || errors.As(err, &told):
		return err
	case errors.Is(err, pcre.ErrText):
		return failed("The text of %s is not UTF-8.", name)
	case errors.Is(err, pcre.ErrLimit):
		return failed("The pattern of %s takes too long to match: %v.", name, err)
	}
	return failed("The pattern of %s is invalid: %v", name, err)
}

// compile compiles a pattern, once in a run. Errors: 400, also for modifiers
// that there are not.
func (e *env) compile(name, pattern, options string) (*pcre.Regexp, error) {
	key := patternKey{pattern, options}
	if re := e.patterns[key]; re != nil {
		return re, nil
	}
	for _, c := range options {
		if !strings.ContainsRune("imsx", c) {
			return nil, failed("'%c' is not a modifier of %s.", c, name)
		}
	}
	re, err := pcre.Compile(pattern, options)
	if err != nil {
		return nil, failed("The pattern of %s is invalid: %v", name, err)
	}
	if e.patterns == nil || len(e.patterns) >= maxPatterns {
		e.patterns = map[patternKey]*pcre.Regexp{}
	}
	e.patterns[key] = re
	return re, nil
}

// regexGroup is the group that a fourth argument names, 0 for the whole match;
// false for what is no group of the pattern.
func regexGroup(re *pcre.Regexp, args []bson.Value) (int, bool) {
	if len(args) < 4 {
		return 0, true
	}
	n, ok := integer(args[3])
	return int(n), ok && n >= 0 && n <= int64(re.Groups())
}

// regexExtract is the first match, or a group of it; undefined if there is
// none.
func regexExtract(re *pcre.Regexp, args []bson.Value) (bson.Value, error) {
	group, ok := regexGroup(re, args)
	if !ok {
		return bson.Value{}, nil
	}
	s := args[0].Str()
	at, err := re.Find(s, 0, patience())
	if err != nil || at == nil || at[2*group] < 0 {
		return bson.Value{}, err
	}
	return text(s[at[2*group]:at[2*group+1]]), nil
}

// regexExtractAll is all matches, or a group of each; "" for a group that took
// no part in one.
func regexExtractAll(re *pcre.Regexp, args []bson.Value) (bson.Value, error) {
	group, ok := regexGroup(re, args)
	if !ok {
		return bson.Value{}, nil
	}
	s := args[0].Str()
	found := []bson.Value{}
	err := re.All(s, patience(), func(at []int) bool {
		if at[2*group] < 0 {
			found = append(found, text(""))
		} else {
			found = append(found, text(s[at[2*group]:at[2*group+1]]))
		}
		return len(found) <= maxArray
	})
	if err == nil && len(found) > maxArray {
		err = failed("REGEXEXTRACTALL makes an array of more than %d elements.", maxArray)
	}
	return bson.Array(found...), err
}

// registerReplace registers a function that replaces the first n matches, all
// for -1, by a text that stands for itself.
func registerReplace(name string, n int) {
	register(name, 3, 4, func(env *env, args []bson.Value) (bson.Value, error) {
		if !allText(args) {
			return bson.Value{}, nil
		}
		options := ""
		if len(args) > 3 {
			options = args[3].Str()
		}
		re, err := env.compile(name, args[1].Str(), options)
		if err != nil {
			return bson.Value{}, err
		}
		v, err := replaceMatches(re, args[0].Str(), args[2].Str(), n)
		return v, unmatched(name, err)
	})
}

func replaceMatches(re *pcre.Regexp, s, by string, n int) (bson.Value, error) {
	var out strings.Builder
	from, replaced := 0, 0
	err := re.All(s, patience(), func(at []int) bool {
		out.WriteString(s[from:at[0]])
		out.WriteString(by)
		from = at[1]
		replaced++
		return replaced != n && out.Len() <= maxString
	})
	if err != nil {
		return bson.Value{}, err
	}
	if out.Len()+len(s)-from > maxString {
		return bson.Value{}, failed("The string is longer than %d bytes.", maxString)
	}
	out.WriteString(s[from:])
	return text(out.String()), nil
}
