package expr

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$function", parseFunction)
	register("$_internalJsEmit", parseEmit)
}

// script is the text of a function with the session to run it in, which is nil
// if the server runs no JavaScript. It is compiled when it is first run, so
// that a text that does not compile fails then.
type script struct {
	text     string
	session  *javascript.Session
	compiled atomic.Pointer[javascript.Function]
}

func (p *parser) script(text string) *script { return &script{text: text, session: p.opts.JavaScript} }

// ready returns the compiled function.
func (s *script) ready() (*javascript.Function, error) {
	if s.session == nil {
		return nil, mongoerr.New(mongoerr.Code(31264), "Cannot run server-side javascript without the javascript engine enabled")
	}
	f := s.compiled.Load()
	if f == nil {
		var err error
		if f, err = s.session.Engine.Compile(s.text); err != nil {
			return nil, err
		}
		s.compiled.Store(f)
	}
	return f, nil
}

// call calls the function.
func (s *script) call(env *Env, args ...bson.Value) (bson.Value, error) {
	f, err := s.ready()
	if err != nil {
		return bson.Value{}, err
	}
	return s.session.Call(env.Context(), f, args...)
}

// isText reports whether v may be the text of a function.
func isText(v bson.Value) bool { return v.Type == bson.TypeString || v.Type == bson.TypeCode }

// function is {$function: {body, args, lang}}.
type function struct {
	body *script
	args Expr
}

func parseFunction(p *parser, _ string, arg bson.Value) (Expr, error) {
	switch {
	case p.opts.Validator:
		return nil, mongoerr.New(mongoerr.Code(4660800), "$function cannot be used inside a validator.")
	case arg.Type != bson.TypeDocument:
		return nil, mongoerr.New(mongoerr.Code(31260), "$function requires an object as an argument, found: %s", arg.Type)
	}
	d := arg.Doc()
	if !d.Has("body") {
		return nil, mongoerr.New(mongoerr.Code(31261), "The body function must be specified.")
	}
	e, err := p.operand(d.Lookup("body"))
	if err != nil {
		return nil, err
	}
	body, ok := e.(*constant)
	switch {
	case !ok:
		return nil, mongoerr.New(mongoerr.Code(31432), "The body function must be a constant expression")
	case !isText(body.value):
		return nil, mongoerr.New(mongoerr.Code(31262), "The body function must evaluate to type string or code")
	case !d.Has("args"):
		return nil, mongoerr.New(mongoerr.Code(31263), "The args field must be specified.")
	}
	f := &function{body: p.script(body.value.Str())}
	if f.args, err = p.operand(d.Lookup("args")); err != nil {
		return nil, err
	}
	switch lang := d.Lookup("lang"); {
	case lang.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(31418), "The lang field must be specified.")
	case lang.Type != bson.TypeString || lang.Str() != "js":
		return nil, mongoerr.New(mongoerr.Code(31419), "Currently the only supported language specifier is 'js'.")
	}
	return f, nil
}

func (f *function) Eval(env *Env) (bson.Value, error) {
	if _, err := f.body.ready(); err != nil {
		return bson.Value{}, err
	}
	args, err := f.args.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if args.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(31266), "The args field must be of type array")
	}
	return f.body.call(env, args.Doc().Slice()...)
}

func (f *function) reduce(*Env) (Expr, error)      { return f, nil }
func (f *function) walk(visit func(operand *Expr)) { visit(&f.args) }

func (f *function) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$function").String("body", f.body.text).Value("args", f.args.serialize()).String("lang", "js")
	return bson.Document(b.Close().Finish())
}

// emit is {$_internalJsEmit: {eval: function, this: document}}: what the map
// function of a mapReduce emits for the document, an array of {k, v}.
type emit struct {
	eval *script
	this Expr
}

func parseEmit(p *parser, name string, arg bson.Value) (Expr, error) {
	switch {
	case p.opts.Validator:
		return nil, mongoerr.New(mongoerr.Code(4660801), "%s cannot be used inside a validator.", name)
	case arg.Type != bson.TypeDocument:
		return nil, mongoerr.New(mongoerr.Code(31221), "%s requires an object as an argument, found: %s", name, arg.Type)
	}
	eval, this := arg.Doc().Lookup("eval"), arg.Doc().Lookup("this")
	switch {
	case eval.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(31222), "The map function must be specified.")
	case !isText(eval):
		return nil, mongoerr.New(mongoerr.Code(31224), "The map function must be of type string or code")
	case this.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(31223), "%s requires 'this' to be specified", name)
	}
	operand, err := p.operand(this)
	return &emit{p.script(eval.Str()), operand}, err
}

func (e *emit) Eval(env *Env) (bson.Value, error) {
	this, err := e.this.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if this.Type != bson.TypeDocument {
		return bson.Value{}, mongoerr.New(mongoerr.Code(31225), "'this' must be an object.")
	}
	f, err := e.eval.ready()
	if err != nil {
		return bson.Value{}, err
	}
	return e.eval.session.Emit(env.Context(), f, this.Doc())
}

func (e *emit) reduce(*Env) (Expr, error)      { return e, nil }
func (e *emit) walk(visit func(operand *Expr)) { visit(&e.this) }

func (e *emit) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$_internalJsEmit").String("eval", e.eval.text).Value("this", e.this.serialize())
	return bson.Document(b.Close().Finish())
}
