package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$switch", parseSwitch) }

// switchExpr evaluates the branch of the first case that holds.
type switchExpr struct {
	cases, thens []Expr
	otherwise    Expr // nil: it is an error that no case holds
}

func parseSwitch(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40060), "$switch requires an object as an argument, found: %s", arg.Type)
	}
	s := &switchExpr{}
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "branches":
			if it.Value.Type != bson.TypeArray {
				return nil, mongoerr.New(mongoerr.Code(40061),
					"$switch expected an array for 'branches', found: %s", it.Value.Type)
			}
			for branch := range it.Value.Doc().Values() {
				if err := s.parseBranch(p, branch); err != nil {
					return nil, err
				}
			}
		case "default":
			var err error
			if s.otherwise, err = p.operand(it.Value); err != nil {
				return nil, err
			}
		default:
			return nil, mongoerr.New(mongoerr.Code(40067), "$switch found an unknown argument: %s", it.Key)
		}
	}
	if len(s.cases) == 0 {
		return nil, mongoerr.New(mongoerr.Code(40068), "$switch requires at least one branch.")
	}
	return s, nil
}

func (s *switchExpr) parseBranch(p *parser, v bson.Value) error {
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.Code(40062), "$switch expected each branch to be an object, found: %s", v.Type)
	}
	args, err := p.named(v.Doc(), []string{"case", "then"}, func(field string) error {
		return mongoerr.New(mongoerr.Code(40063), "$switch found an unknown argument to a branch: %s", field)
	})
	switch {
	case err != nil:
		return err
	case args[0] == nil:
		return mongoerr.New(mongoerr.Code(40064), "$switch requires each branch have a 'case' expression")
	case args[1] == nil:
		return mongoerr.New(mongoerr.Code(40065), "$switch requires each branch have a 'then' expression.")
	}
	s.cases = append(s.cases, args[0])
	s.thens = append(s.thens, args[1])
	return nil
}

func (s *switchExpr) Eval(env *Env) (bson.Value, error) {
	for i, c := range s.cases {
		v, err := c.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if v.Truthy() {
			return s.thens[i].Eval(env)
		}
	}
	if s.otherwise == nil {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40066),
			"$switch could not find a matching branch for an input, and no default was specified.")
	}
	return s.otherwise.Eval(env)
}

// optimizeSelf drops branches whose case is constantly false, and all after one
// that is constantly true, whose branch becomes the default; what is dropped is
// not examined.
func (s *switchExpr) optimizeSelf(p *parser) (Expr, error) {
	o := &switchExpr{otherwise: s.otherwise}
	var err error
	if o.otherwise != nil {
		if o.otherwise, err = p.optimize(o.otherwise); err != nil {
			return nil, err
		}
	}
	for i := range s.cases {
		c, err := p.optimize(s.cases[i])
		if err != nil {
			return nil, err
		}
		v, isConstant := Constant(c)
		if isConstant && !v.Truthy() {
			continue
		}
		then, err := p.optimize(s.thens[i])
		if err != nil {
			return nil, err
		}
		if isConstant {
			o.otherwise = then
			break
		}
		o.cases, o.thens = append(o.cases, c), append(o.thens, then)
	}
	if len(o.cases) > 0 {
		return o, nil
	}
	if o.otherwise == nil {
		return nil, mongoerr.New(mongoerr.Code(40069),
			"One cannot execute a switch statement where all the cases evaluate to false without a default.")
	}
	return o.otherwise, nil
}

func (s *switchExpr) walk(f func(*Expr)) {
	for i := range s.cases {
		f(&s.cases[i])
		f(&s.thens[i])
	}
	if s.otherwise != nil {
		f(&s.otherwise)
	}
}

func (s *switchExpr) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$switch").OpenArray("branches")
	for i := range s.cases {
		b.OpenDoc(bson.Index(i)).Value("case", s.cases[i].serialize()).Value("then", s.thens[i].serialize()).Close()
	}
	b.Close()
	if s.otherwise != nil {
		b.Value("default", s.otherwise.serialize())
	}
	return bson.Document(b.Close().Finish())
}
