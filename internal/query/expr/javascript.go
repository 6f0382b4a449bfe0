package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$function", parseFunction) }

// function is $function on a server whose JavaScript engine is disabled: it is
// parsed and checked, and refused when it would run.
type function struct {
	body, lang bson.Value
	args       Expr
}

func parseFunction(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(31260), "$function requires an object as an argument, found: %s", arg.Type)
	}
	if p.opts.Validator {
		return nil, mongoerr.New(mongoerr.Code(4660800), "$function cannot be used inside a validator.")
	}
	f := &function{}
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "body":
			f.body = it.Value
		case "args":
			args, err := p.operand(it.Value)
			if err != nil {
				return nil, err
			}
			f.args = args
		case "lang":
			f.lang = it.Value
		default:
			return nil, mongoerr.New(mongoerr.Code(31261), "$function found an unknown argument: %s", it.Key)
		}
	}
	switch {
	case f.body.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(31261), "The body function must be specified.")
	case f.args == nil:
		return nil, mongoerr.New(mongoerr.Code(31262), "The args field must be specified.")
	case f.lang.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(31418), "The lang field must be specified.")
	case f.lang.Type != bson.TypeString || f.lang.Str() != "js":
		return nil, mongoerr.New(mongoerr.Code(31419), "Currently the only supported language specifier is 'js'.")
	}
	return f, nil
}

// errNoJavaScript is the error of running JavaScript without an engine.
func errNoJavaScript() error {
	return mongoerr.New(mongoerr.Code(31264), "Cannot run server-side javascript without the javascript engine enabled")
}

func (f *function) Eval(*Env) (bson.Value, error)  { return bson.Value{}, errNoJavaScript() }
func (f *function) reduce(*Env) (Expr, error)      { return f, nil }
func (f *function) walk(visit func(operand *Expr)) { visit(&f.args) }

func (f *function) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$function").Value("body", f.body).Value("args", f.args.serialize()).Value("lang", f.lang)
	return bson.Document(b.Close().Finish())
}
