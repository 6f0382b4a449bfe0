package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNary("$indexOfBytes", 2, 4, func(env *Env, args []Expr) (bson.Value, error) {
		s, find, from, to, err := indexOfArguments(env, "$indexOfBytes", 40091, args)
		if err != nil || s.IsNullish() {
			return s, err
		}
		text := s.Str()
		if to = min(to, len(text)); from > to {
			return smallInt(-1), nil
		}
		// A match may begin inside a code point: places are bytes.
		i := strings.Index(text[from:to], find)
		if i >= 0 {
			i += from
		}
		return env.count(i), nil
	})
	registerNary("$indexOfCP", 2, 4, func(env *Env, args []Expr) (bson.Value, error) {
		s, find, from, to, err := indexOfArguments(env, "$indexOfCP", 40093, args)
		if err != nil || s.IsNullish() {
			return s, err
		}
		return indexOfPoints(env, s.Str(), find, from, to), nil
	})
}

// indexOfPoints searches for a match that begins among the code points [from, to); it
// may end after them.
func indexOfPoints(env *Env, s, find string, from, to int) bson.Value {
	if s == "" && find == "" && from == 0 {
		return smallInt(0)
	}
	start := 0
	for skip := from; skip > 0; skip-- {
		if start == len(s) {
			return smallInt(-1)
		}
		start += pointLength(s[start:])
	}
	for at := start; ; {
		i := strings.Index(s[at:], find)
		if i < 0 {
			return smallInt(-1)
		}
		at += i
		place := from + codePoints(s[start:at])
		if place >= to || at == len(s) {
			return smallInt(-1)
		}
		if !isContinuation(s[at]) {
			return env.count(place)
		}
		at++
	}
}

// noEnd is the end of a search without an end.
const noEnd = 1<<31 - 1

// indexOfArguments evaluates the operands of $indexOfBytes and $indexOfCP; s is
// null if that is the result.
func indexOfArguments(env *Env, name string, code mongoerr.Code, args []Expr) (s bson.Value, find string, from, to int, err error) {
	to = noEnd
	if s, err = args[0].Eval(env); err != nil {
		return
	}
	if s.IsNullish() {
		s = bson.Null
		return
	}
	if s.Type != bson.TypeString {
		err = mongoerr.New(code, "%s requires a string as the first argument, found: %s", name, s.Type)
		return
	}
	v, err := args[1].Eval(env)
	if err != nil {
		return
	}
	if v.Type != bson.TypeString {
		err = mongoerr.New(code+1, "%s requires a string as the second argument, found: %s", name, v.Type)
		return
	}
	find = v.Str()
	if len(args) > 2 {
		if from, err = indexArgument(env, name, "starting index", args[2]); err != nil {
			return
		}
	}
	if len(args) > 3 {
		to, err = indexArgument(env, name, "ending index", args[3])
	}
	return
}

func indexArgument(env *Env, name, what string, e Expr) (int, error) {
	v, err := e.Eval(env)
	if err != nil {
		return 0, err
	}
	i, ok := bson.ExactInt32(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(40096),
			"%s requires an integral %s, found a value of type: %s, with value: \"%s\"", name, what, v.Type, text(v))
	}
	if i < 0 {
		return 0, mongoerr.New(mongoerr.Code(40097), "%s requires a nonnegative %s, found: %d", name, what, i)
	}
	return int(i), nil
}
