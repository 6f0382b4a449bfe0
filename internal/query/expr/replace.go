package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerReplace("$replaceOne", 1)
	registerReplace("$replaceAll", -1)
}

// replaceParams are the arguments of the replacing operators, with the codes of the
// errors for those that are missing or of the wrong type.
var (
	replaceParams      = []string{"input", "find", "replacement"}
	replaceAbsentCodes = []mongoerr.Code{51749, 51748, 51747}
	replaceTypeCodes   = []mongoerr.Code{10503904, 10503901, 10503902}
)

// registerReplace registers an operator that replaces at most limit times,
// without limit if it is negative.
func registerReplace(name string, limit int) {
	eval := func(env *Env, args []Expr) (bson.Value, error) { return evalReplace(env, name, args, limit) }
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		if arg.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.Code(51751), "%s requires an object as an argument, found: %s", name, arg.Type)
		}
		args, err := p.named(arg.Doc(), replaceParams, func(field string) error {
			return mongoerr.New(mongoerr.Code(51750), "%s found an unknown argument: %s", name, field)
		})
		if err != nil {
			return nil, err
		}
		for i, a := range args {
			if a == nil {
				return nil, mongoerr.New(replaceAbsentCodes[i], "%s requires '%s' to be specified", name, replaceParams[i])
			}
		}
		return &recordCall{name, replaceParams, eval, args}, nil
	})
}

func evalReplace(env *Env, name string, args []Expr, limit int) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	null := false
	for i, param := range replaceParams {
		if vs[i].IsNullish() {
			null = true
		} else if vs[i].Type != bson.TypeString {
			return bson.Value{}, mongoerr.New(replaceTypeCodes[i],
				"%s requires that '%s' be a string, found: %s", name, param, text(vs[i]))
		}
	}
	if null {
		return bson.Null, nil
	}
	return replaceString(env, vs[0], vs[1].Str(), vs[2].Str(), limit)
}

func replaceString(env *Env, input bson.Value, find, replacement string, limit int) (bson.Value, error) {
	s := input.Str()
	n := 0
	switch {
	case limit == 1:
		if strings.Contains(s, find) {
			n = 1
		}
	case find == "": // as the server has it, between bytes, not between code points
		n = len(s) + 1
	default:
		n = strings.Count(s, find)
	}
	if n == 0 {
		return input, nil
	}
	out, body, err := env.newString(len(s) + n*(len(replacement)-len(find)))
	if err != nil {
		return bson.Value{}, err
	}
	for i := range n {
		at := strings.Index(s, find)
		if find == "" && i > 0 {
			at = 1
		}
		body = body[copy(body, s[:at]):]
		body = body[copy(body, replacement):]
		s = s[at+len(find):]
	}
	copy(body, s)
	return out, nil
}
