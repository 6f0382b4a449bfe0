package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxReduced is how many bytes of values one call of a reduce function gets.
const maxReduced = 16 << 20

func init() { accumulators["$_internalJsReduce"] = parseJavaScriptReduce }

// parseJavaScriptReduce parses {$_internalJsReduce: {data: {k, v}, eval: function}}: the
// reduce function of a mapReduce.
func parseJavaScriptReduce(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(31326), "%s requires a document argument, but found %s", name, arg.Type)
	}
	var f *script
	var data Expr
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "eval":
			if !isText(it.Value) {
				return nil, mongoerr.New(mongoerr.Code(31244), "%s requires the 'eval' argument to be of type string, or code but found %s", name, it.Value.Type)
			}
			f = p.script(it.Value.Str())
		case "data":
			var err error
			if data, err = p.operand(it.Value); err != nil {
				return nil, err
			}
		default:
			return nil, mongoerr.New(mongoerr.Code(31243), "Invalid argument specified to %s: %s: %s", name, it.Key, text(it.Value))
		}
	}
	switch {
	case f == nil || f.text == "":
		return nil, mongoerr.New(mongoerr.Code(31245), "%s requires 'eval' argument, recieved input: %s", name, text(arg))
	case data == nil:
		return nil, mongoerr.New(mongoerr.Code(31349), "%s requires 'data' argument, recieved input: %s", name, text(arg))
	}
	return &AccumulatorSpec{
		Name: name, exprs: []Expr{data},
		start: func(s *AccumulatorSpec, env *Env, _ bson.Value) (Accumulator, error) {
			return &reduceState{f: f, data: data, env: env}, nil
		},
		print: func(s *AccumulatorSpec) bson.Value {
			return bson.Document(new(bson.Builder).Value("data", s.exprs[0].serialize()).String("eval", f.text).Finish())
		},
	}, nil
}

// reduceState is the values of one key.
type reduceState struct {
	f      *script
	data   Expr
	env    *Env
	key    bson.Value
	values []bson.Value
	bytes  int
}

func (s *reduceState) Add(env *Env) error {
	pair, err := s.data.Eval(env)
	if err != nil || pair.IsMissing() {
		return err
	}
	if pair.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.Code(31242), "$_internalJsReduce requires a document argument, but found %s", pair.Type)
	}
	k, v := pair.Doc().Lookup("k"), pair.Doc().Lookup("v")
	if pair.Doc().Len() != 2 || k.IsMissing() || v.IsMissing() {
		return mongoerr.New(mongoerr.Code(31251), "$_internalJsReduce requires the 'data' argument to have a 'k' and 'v' field. Instead found%s", text(pair))
	}
	s.key = k.Clone()
	s.values = append(s.values, v.Clone())
	s.bytes += len(v.Data)
	return nil
}

// Result reduces the values, the last first, until one is left: as many in one
// call as an array may hold.
func (s *reduceState) Result() (bson.Value, error) {
	if len(s.values) == 0 {
		return bson.Value{}, nil
	}
	left := append([]bson.Value(nil), s.values...)
	for {
		var b bson.Builder
		b.Reset(nil)
		n := 0
		for ; n < len(left); n++ {
			v := left[len(left)-1-n]
			if b.Len()+len(s.key.Data)+len(v.Data) > maxReduced {
				break
			}
			b.Value(bson.Index(n), v)
		}
		if n < len(left) && n <= 1 {
			return bson.Value{}, mongoerr.New(mongoerr.Code(31392), "Value too large to reduce")
		}
		reduced, err := s.f.call(s.env, s.key, bson.ArrayOf(b.Finish()))
		if err != nil || n == len(left) {
			return reduced, err
		}
		left = append(left[:len(left)-n], reduced)
	}
}

func (s *reduceState) Size() int { return 128 + len(s.key.Data) + s.bytes + 32*len(s.values) }

// Save appends the key and the values.
func (s *reduceState) Save(b []byte) ([]byte, error) {
	b = saveValue(b, s.key)
	for _, v := range s.values {
		b = saveValue(b, v)
	}
	return b, nil
}

// Load adds them.
func (s *reduceState) Load(_ *Env, b []byte) error {
	in := saved(b)
	s.key = in.value().Clone()
	for len(in) > 0 {
		v := in.value().Clone()
		s.values = append(s.values, v)
		s.bytes += len(v.Data)
	}
	return nil
}
