package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { accumulators["$accumulator"] = parseJavaScriptAccumulator }

// parseJavaScriptAccumulator checks $accumulator, whose first document fails: the
// JavaScript engine is disabled.
func parseJavaScriptAccumulator(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(4544703), "$accumulator expects an object as an argument; found: %s", arg.Type)
	}
	s := &AccumulatorSpec{Name: name, print: func(*AccumulatorSpec) bson.Value { return arg }}
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "init", "accumulate", "merge", "finalize":
			if it.Value.Type != bson.TypeString && it.Value.Type != bson.TypeCode {
				return nil, mongoerr.New(mongoerr.Code(4544701),
					"$accumulator '%s' must be a String or Code, but found: %s", it.Key, it.Value.Type)
			}
		case "accumulateArgs", "initArgs":
			e, err := p.operand(it.Value)
			if err != nil {
				return nil, err
			}
			s.exprs = append(s.exprs, e)
		case "lang":
			if it.Value.Type != bson.TypeString || it.Value.Str() != "js" {
				return nil, mongoerr.New(mongoerr.Code(4544702),
					"$accumulator only supports lang: 'js', but found: %s", text(it.Value))
			}
		default:
			return nil, mongoerr.New(mongoerr.Code(4544706), "$accumulator got an unexpected field: %s", it.Key)
		}
	}
	for i, required := range []string{"init", "accumulate", "accumulateArgs", "merge", "lang"} {
		if arg.Doc().Lookup(required).IsMissing() {
			return nil, mongoerr.New(mongoerr.Code(4544707+i), "$accumulator missing required argument '%s'", required)
		}
	}
	s.start = func(*AccumulatorSpec, *Env, bson.Value) (Accumulator, error) { return nil, errNoJavaScript() }
	return s, nil
}
