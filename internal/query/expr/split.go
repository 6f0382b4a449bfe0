package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { registerBinary("$split", evalSplit) }

func evalSplit(env *Env, input, separator bson.Value) (bson.Value, error) {
	if input.IsNullish() || separator.IsNullish() {
		return bson.Null, nil
	}
	if input.Type != bson.TypeString {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40085),
			"$split requires an expression that evaluates to a string as a first argument, found: %s", input.Type)
	}
	if separator.Type != bson.TypeString {
		return bson.Value{}, mongoerr.New(mongoerr.Code(10503900),
			"$split requires an expression that evaluates to a string as a second argument, found: %s", separator.Type)
	}
	rest, sep := input.Str(), separator.Str()
	if sep == "" {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40087), "$split requires a non-empty separator")
	}
	mark := env.mark()
	for {
		part, after, found := strings.Cut(rest, sep)
		env.push(env.String(part))
		if !found {
			return env.takeArray(mark)
		}
		rest = after
	}
}
