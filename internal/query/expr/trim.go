package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerTrim("$trim", true, true)
	registerTrim("$ltrim", true, false)
	registerTrim("$rtrim", false, true)
}

// trimmed are the code points that are trimmed if none are named.
const trimmed = "\x00\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"

func registerTrim(name string, left, right bool) {
	params := []string{"input", "chars"}
	eval := func(env *Env, args []Expr) (bson.Value, error) { return evalTrim(env, name, args, left, right) }
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		if arg.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.Code(50696), "%s only supports an object as an argument, found %s", name, arg.Type)
		}
		args, err := p.named(arg.Doc(), params, func(field string) error {
			return mongoerr.New(mongoerr.Code(50694), "%s found an unknown argument: %s", name, field)
		})
		if err == nil && args[0] == nil {
			err = mongoerr.New(mongoerr.Code(50695), "%s requires an 'input' field", name)
		}
		return &recordCall{name, params, eval, args}, err
	})
}

func evalTrim(env *Env, name string, args []Expr, left, right bool) (bson.Value, error) {
	input, err := args[0].Eval(env)
	if err != nil || input.IsNullish() {
		return bson.Null, err
	}
	if input.Type != bson.TypeString {
		return bson.Value{}, mongoerr.New(mongoerr.Code(50699),
			"%s requires its input to be a string, got %s (of type %s) instead.", name, text(input), input.Type)
	}
	set := trimmed
	if args[1] != nil {
		chars, err := args[1].Eval(env)
		if err != nil || chars.IsNullish() {
			return bson.Null, err
		}
		if chars.Type != bson.TypeString {
			return bson.Value{}, mongoerr.New(mongoerr.Code(50700),
				"%s requires 'chars' to be a string, got %s (of type %s) instead.", name, text(chars), chars.Type)
		}
		set = chars.Str()
	}
	s := input.Str()
	for left && len(s) > 0 {
		n := pointLength(s)
		if !strings.Contains(set, s[:n]) {
			break
		}
		s = s[n:]
	}
	for right && len(s) > 0 {
		start := len(s) - 1
		for start > 0 && len(s)-start < 4 && isContinuation(s[start]) {
			start--
		}
		if !strings.Contains(set, s[start:]) {
			break
		}
		s = s[:start]
	}
	if len(s) == len(input.Str()) {
		return input, nil
	}
	return env.String(s), nil
}
