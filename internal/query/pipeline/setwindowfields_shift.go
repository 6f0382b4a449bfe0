package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// windowShift is {$shift: {output, by, default}}: the output of the document by
// positions away.
type windowShift struct {
	output    expr.Expr
	by        int
	otherwise bson.Value
}

func parseShift(arg bson.Value, order expr.WindowOrder, p *parsing) (*windowShift, error) {
	if order.Spec == nil {
		return nil, mongoerr.New(mongoerr.FailedToParse, "'$shift' requires a sortBy")
	}
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "Argument to $shift must be an object")
	}
	s := &windowShift{otherwise: bson.Null}
	var by bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		e, err := expr.Parse(it.Value, p.reducing())
		if err != nil {
			return nil, err
		}
		switch it.Key {
		case "output":
			s.output = e
		case "by":
			by = it.Value
		case "default":
			var constant bool
			if s.otherwise, constant = expr.Constant(e); !constant {
				return nil, mongoerr.New(mongoerr.FailedToParse, "'$shift:default' expression must yield a constant value.")
			}
			s.otherwise = orNull(s.otherwise)
		default:
			return nil, mongoerr.New(mongoerr.FailedToParse, "Unknown argument in $shift: %s", it.Key)
		}
	}
	n, ok := bson.ExactInt64(by)
	switch {
	case s.output == nil:
		return nil, mongoerr.New(mongoerr.FailedToParse, "'$shift' requires an output field.")
	case by.IsMissing():
		return nil, mongoerr.New(mongoerr.FailedToParse, "'$shift' requires 'by' as an integer value.")
	case !ok || n != int64(int32(n)):
		return nil, mongoerr.New(mongoerr.FailedToParse, "'$shift:by' field must be an integer, but found  by: %s", by)
	}
	s.by = int(max(min(n, maxWindow), -maxWindow))
	return s, nil
}

func (s *windowShift) serialize() bson.Doc {
	b := new(bson.Builder)
	return b.Int64("by", int64(s.by)).Value("output", expr.Serialize(s.output)).Value("default", s.otherwise).Finish()
}

// shifting runs a windowShift.
type shifting struct {
	s    *windowShift
	p    *partition
	env  *expr.Env
	next int
}

func (s *shifting) needs() int { return max(0, s.next+s.s.by) }
func (s *shifting) size() int  { return 64 }

func (s *shifting) at(ctx context.Context, i int) (bson.Value, error) {
	s.next = i + 1
	j := i + s.s.by
	if j < 0 {
		return s.s.otherwise, nil
	}
	d, err := s.p.at(ctx, j)
	if err != nil {
		return bson.Value{}, err
	}
	if d == nil {
		return s.s.otherwise, nil
	}
	v, err := s.s.output.Eval(s.env.WithRoot(d))
	if v.IsMissing() {
		v = s.s.otherwise
	}
	return v, err
}
