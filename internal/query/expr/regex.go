package expr

import (
	"strings"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/pcre"
)

func init() {
	registerRegex("$regexMatch", evalRegexMatch)
	registerRegex("$regexFind", evalRegexFind)
	registerRegex("$regexFindAll", evalRegexFindAll)
}

var regexParams = []string{"input", "regex", "options"}

// pattern is a compiled regular expression and its source.
type pattern struct {
	source, options string
	prog            *pcre.Regexp
}

// regexCall is {$regexMatch: {input, regex, options}} and its kin.
type regexCall struct {
	recordCall
	eval func(env *Env, r *regexCall, prog *pcre.Regexp, s string) (bson.Value, error)
	none bson.Value // the result if input or pattern is null
	// last is the pattern used last: most often all documents share one.
	last *atomic.Pointer[pattern]
}

func registerRegex(name string, eval func(*Env, *regexCall, *pcre.Regexp, string) (bson.Value, error)) {
	none := map[string]bson.Value{"$regexMatch": bson.False, "$regexFind": bson.Null, "$regexFindAll": bson.Array()}[name]
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		if arg.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.Code(51103),
				"%s expects an object of named arguments but found: %s", name, arg.Type)
		}
		args, err := p.named(arg.Doc(), regexParams, func(field string) error {
			return mongoerr.New(mongoerr.Code(31024), "%s found an unknown argument: %s", name, field)
		})
		switch {
		case err != nil:
			return nil, err
		case args[0] == nil:
			return nil, mongoerr.New(mongoerr.Code(31022), "%s requires 'input' parameter", name)
		case args[1] == nil:
			return nil, mongoerr.New(mongoerr.Code(31023), "%s requires 'regex' parameter", name)
		}
		r := &regexCall{recordCall{name, regexParams, nil, args}, eval, none, new(atomic.Pointer[pattern])}
		return r, nil
	})
}

// reduce finds a bad constant pattern even if there is no document to match.
func (r *regexCall) reduce(env *Env) (Expr, error) {
	for _, a := range r.args[1:] {
		if a == nil {
			continue
		}
		if _, ok := Constant(a); !ok {
			return r, nil
		}
	}
	if _, err := r.pattern(env); err != nil {
		return nil, err
	}
	if _, ok := Constant(r.args[0]); !ok {
		return r, nil
	}
	v, err := r.Eval(env)
	if err != nil {
		return nil, err
	}
	return &constant{v.Clone()}, nil
}

func (r *regexCall) Eval(env *Env) (bson.Value, error) {
	input, err := r.args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	prog, err := r.pattern(env)
	if err != nil {
		return bson.Value{}, err
	}
	if input.IsNullish() {
		return r.none, nil
	}
	if input.Type != bson.TypeString {
		return bson.Value{}, mongoerr.New(mongoerr.Code(51104), "%s needs 'input' to be of type string", r.name)
	}
	if prog == nil {
		return r.none, nil
	}
	return r.eval(env, r, prog, input.Str())
}

// pattern evaluates and compiles the regular expression; it is nil if that
// is null.
func (r *regexCall) pattern(env *Env) (*pcre.Regexp, error) {
	regex, err := r.args[1].Eval(env)
	if err != nil {
		return nil, err
	}
	options, err := evalOr(env, r.args[2], bson.Null)
	if err != nil {
		return nil, err
	}
	if !regex.IsNullish() && regex.Type != bson.TypeString && regex.Type != bson.TypeRegex {
		return nil, mongoerr.New(mongoerr.Code(51105), "%s needs 'regex' to be of type string or regex", r.name)
	}
	if !options.IsNullish() && options.Type != bson.TypeString {
		return nil, mongoerr.New(mongoerr.Code(51106), "%s needs 'options' to be of type string", r.name)
	}
	var source, flags string
	switch regex.Type {
	case bson.TypeString:
		source = regex.Str()
	case bson.TypeRegex:
		source, flags = regex.Regex()
		if flags != "" && !options.IsNullish() {
			return nil, mongoerr.New(mongoerr.Code(51107),
				"%s: found regex option(s) specified in both 'regex' and 'option' fields", r.name)
		}
	default:
		return nil, nil
	}
	if options.Type == bson.TypeString {
		flags = options.Str()
	}
	if last := r.last.Load(); last != nil && last.source == source && last.options == flags {
		return last.prog, nil
	}
	return r.compile(source, flags)
}

func (r *regexCall) compile(source, flags string) (*pcre.Regexp, error) {
	if strings.IndexByte(source, 0) >= 0 {
		return nil, mongoerr.New(mongoerr.Code(51109), "%s: regular expression cannot contain an embedded null byte", r.name)
	}
	if strings.IndexByte(flags, 0) >= 0 {
		return nil, mongoerr.New(mongoerr.Code(51110),
			"%s: regular expression options cannot contain an embedded null byte", r.name)
	}
	for _, c := range flags {
		if !pcre.ValidOption(c) {
			return nil, mongoerr.New(mongoerr.Code(51108), "%s invalid flag in regex options: %c", r.name, c)
		}
	}
	prog, err := pcre.Compile(source, flags)
	if err != nil {
		return nil, mongoerr.New(mongoerr.Code(51111), "Invalid Regex in %s: %s", r.name, err)
	}
	r.last.Store(&pattern{strings.Clone(source), strings.Clone(flags), prog})
	return prog, nil
}

// failed is the error of a match: that of the end of the operation, or that the
// text is not UTF-8 or takes too much backtracking.
func (r *regexCall) failed(env *Env, err error) error {
	if ended := env.Ended(); ended != nil {
		return ended
	}
	return mongoerr.New(mongoerr.Code(51156), "Error occurred while executing the regular expression in %s. Result code: %s", r.name, err)
}

func evalRegexMatch(env *Env, r *regexCall, prog *pcre.Regexp, s string) (bson.Value, error) {
	ok, err := prog.Match(s, env.Ended)
	if err != nil {
		return bson.Value{}, r.failed(env, err)
	}
	return bson.Bool(ok), nil
}

func evalRegexFind(env *Env, r *regexCall, prog *pcre.Regexp, s string) (bson.Value, error) {
	m, err := prog.Find(s, 0, env.Ended)
	if err != nil {
		return bson.Value{}, r.failed(env, err)
	}
	if m == nil {
		return bson.Null, nil
	}
	return env.regexMatch(s, m, codePoints(s[:m[0]]))
}

// maxRegexOutput bounds the result of $regexFindAll in bytes.
const maxRegexOutput = 64 << 20

func evalRegexFindAll(env *Env, r *regexCall, prog *pcre.Regexp, s string) (bson.Value, error) {
	mark := env.mark()
	var at, place, size int // the place of a byte offset, in code points
	var failed error
	err := prog.All(s, env.Ended, func(m []int) bool {
		if m[0] < at { // a match may be said to begin before the last one's end
			at, place = 0, 0
		}
		place += codePoints(s[at:m[0]])
		at = m[0]
		v, err := env.regexMatch(s, m, place)
		if size += len(v.Data); err == nil && size > maxRegexOutput {
			err = mongoerr.New(mongoerr.Code(51151), "%s: the size of buffer to store output exceeded the 64MB limit", r.name)
		}
		env.push(v)
		failed = err
		return err == nil
	})
	if err != nil {
		failed = r.failed(env, err)
	}
	if failed != nil {
		env.release(mark)
		return bson.Value{}, failed
	}
	return env.takeArray(mark)
}

var regexMatchNames = []string{"match", "idx", "captures"}

// regexMatch is the result for one match: offsets of it and of its groups, and
// the code point it begins at.
func (e *Env) regexMatch(s string, m []int, place int) (bson.Value, error) {
	mark := e.mark()
	for i := 2; i < len(m); i += 2 {
		if m[i] < 0 {
			e.push(bson.Null)
		} else {
			e.push(e.String(s[m[i]:m[i+1]]))
		}
	}
	captures, err := e.takeArray(mark)
	if err != nil {
		return bson.Value{}, err
	}
	e.push(e.String(s[m[0]:m[1]]))
	e.push(e.count(place))
	e.push(captures)
	v, err := e.object(regexMatchNames, e.since(mark))
	e.release(mark)
	return v, err
}
