package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$getField", parseGetField)
	register("$setField", parseSetField)
	register("$unsetField", parseSetField)
}

// parseGetField parses {$getField: {field, input}} and {$getField: field}, which
// reads the current document. The field's name is taken as it is: neither dots
// nor dollars mean anything in it.
func parseGetField(p *parser, name string, arg bson.Value) (Expr, error) {
	params := []string{"field", "input"}
	var first string
	if arg.Type == bson.TypeDocument {
		first, _ = arg.Doc().First()
	}
	if arg.Type != bson.TypeDocument || len(first) > 0 && first[0] == '$' {
		field, err := p.operand(arg)
		if err != nil {
			return nil, err
		}
		current, err := p.fieldPath("$$CURRENT")
		return &recordCall{name, params, evalGetField, []Expr{field, current}}, err
	}
	args, err := p.named(arg.Doc(), params, func(field string) error {
		return mongoerr.New(mongoerr.Code(3041701), "$getField found an unknown argument: %s", field)
	})
	switch {
	case err != nil:
		return nil, err
	case args[0] == nil:
		return nil, mongoerr.New(mongoerr.Code(3041702), "$getField requires 'field' to be specified")
	case args[1] == nil:
		return nil, mongoerr.New(mongoerr.Code(3041703), "$getField requires 'input' to be specified")
	}
	return &recordCall{name, params, evalGetField, args}, nil
}

func evalGetField(env *Env, args []Expr) (bson.Value, error) {
	field, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if field.Type != bson.TypeString {
		return bson.Value{}, mongoerr.New(mongoerr.Code(3041704),
			"$getField requires 'field' to evaluate to type String, but got %s", field.Type)
	}
	input, err := args[1].Eval(env)
	switch {
	case err != nil:
		return bson.Value{}, err
	case input.Type == bson.TypeDocument:
		return input.Doc().Lookup(field.Str()), nil
	case input.Type == bson.TypeNull || input.Type == bson.TypeUndefined:
		return bson.Null, nil
	}
	return bson.Value{}, nil
}

// setField is $setField, and $unsetField, whose value is nil.
type setField struct {
	name         string
	field        string
	input, value Expr
}

func parseSetField(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(4161100), "%s only supports an object as its argument", name)
	}
	params := []string{"field", "input", "value"}
	unset := name == "$unsetField"
	if unset {
		params = params[:2]
	}
	args, err := p.named(arg.Doc(), params, func(field string) error {
		return mongoerr.New(mongoerr.Code(4161101), "%s found an unknown argument: %s", name, field)
	})
	switch {
	case err != nil:
		return nil, err
	case args[0] == nil:
		return nil, mongoerr.New(mongoerr.Code(4161102), "%s requires 'field' to be specified", name)
	case !unset && args[2] == nil:
		return nil, mongoerr.New(mongoerr.Code(4161103), "%s requires 'value' to be specified", name)
	case args[1] == nil:
		return nil, mongoerr.New(mongoerr.Code(4161109), "%s requires 'input' to be specified", name)
	}
	s := &setField{name: name, input: args[1]}
	if !unset {
		s.value = args[2]
	}
	if s.field, err = constantField(name, args[0]); err != nil {
		return nil, err
	}
	return s, nil
}

// constantField is the name of the field to set, which must be written as a
// constant: an operator is none, even one that would reduce to a constant.
func constantField(name string, e Expr) (string, error) {
	if path, ok := e.(*fieldPath); ok {
		return "", mongoerr.New(mongoerr.Code(4161108),
			"'%s' is a field path reference which is not allowed in this context. Did you mean {$literal: '%s'}?",
			path.serialize().Str(), path.serialize().Str())
	}
	v, ok := Constant(e)
	if o, object := e.(*objectLiteral); object && len(o.names) == 0 {
		v, ok = bson.Document(bson.Empty), true
	}
	if !ok {
		return "", mongoerr.New(mongoerr.Code(4161106),
			"%s requires 'field' to evaluate to a constant, but got a non-constant argument", name)
	}
	if v.Type != bson.TypeString {
		return "", mongoerr.New(mongoerr.Code(4161107),
			"%s requires 'field' to evaluate to type String, but got %s", name, v.Type)
	}
	if strings.IndexByte(v.Str(), 0) >= 0 {
		return "", mongoerr.New(mongoerr.Code(9534700), "%s requires 'field' to not contain null bytes", name)
	}
	return v.Str(), nil
}

func (s *setField) Eval(env *Env) (bson.Value, error) {
	input, err := s.input.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	var value bson.Value
	if s.value != nil {
		if value, err = s.value.Eval(env); err != nil {
			return bson.Value{}, err
		}
	}
	if input.IsNullish() {
		return bson.Null, nil
	}
	if input.Type != bson.TypeDocument {
		return bson.Value{}, mongoerr.New(mongoerr.Code(4161105),
			"%s requires 'input' to evaluate to type Object", s.name)
	}
	var fields fieldSet
	fields.setAll(input.Doc())
	if !value.IsMissing() || fields.find(s.field) >= 0 {
		fields.set(s.field, value)
	}
	return fields.value(env)
}

func (s *setField) walk(f func(*Expr)) {
	f(&s.input)
	if s.value != nil {
		f(&s.value)
	}
}

func (s *setField) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc(s.name).Value("field", wrap("$const", bson.String(s.field))).Value("input", s.input.serialize())
	if s.value != nil {
		b.Value("value", s.value.serialize())
	}
	return bson.Document(b.Close().Finish())
}
