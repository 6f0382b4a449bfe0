package expr

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$sortArray", parseSortArray) }

// sortArray sorts an array by its elements, or by fields of its elements.
type sortArray struct {
	input Expr
	spec  bson.Value // as given, for explain
	whole int        // 1 or -1: by whole elements; 0: by the fields
	by    []sortField
}

type sortField struct {
	parts []string
	desc  bool
}

func parseSortArray(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(2942500), "$sortArray requires an object as an argument, found: %s", arg.Type)
	}
	s := &sortArray{}
	var err error
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "input":
			if s.input, err = p.operand(it.Value); err != nil {
				return nil, err
			}
		case "sortBy":
			s.spec = it.Value
		default:
			return nil, mongoerr.New(mongoerr.Code(2942501), "$sortArray found an unknown argument: %s", it.Key)
		}
	}
	if s.input == nil {
		return nil, mongoerr.New(mongoerr.Code(2942502), "$sortArray requires 'input' to be specified")
	}
	if s.spec.IsMissing() {
		return nil, mongoerr.New(mongoerr.Code(2942503), "$sortArray requires 'sortBy' to be specified")
	}
	return s, s.parseBy()
}

func (s *sortArray) parseBy() error {
	switch {
	case s.spec.IsNumber():
		i, ok := bson.ExactInt64(s.spec)
		if !ok || i != 1 && i != -1 {
			return mongoerr.New(mongoerr.Code(2942506), "The $sort element value must be either 1 or -1")
		}
		s.whole = int(i)
		return nil
	case s.spec.Type != bson.TypeDocument:
		return mongoerr.New(mongoerr.Code(2942507), "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields")
	}
	for it := s.spec.Doc().Iter(); it.Next(); {
		i, ok := bson.ExactInt64(it.Value)
		if !ok || i != 1 && i != -1 {
			return mongoerr.New(mongoerr.Code(2942505), "The $sort element value must be either 1 or -1")
		}
		if it.Key == "" || strings.HasPrefix(it.Key, ".") || strings.HasSuffix(it.Key, ".") || strings.Contains(it.Key, "..") {
			return mongoerr.New(mongoerr.Code(2942505), "The $sort field is a dotted field but has an empty part: %s", it.Key)
		}
		s.by = append(s.by, sortField{strings.Split(it.Key, "."), i < 0})
	}
	if len(s.by) == 0 {
		return mongoerr.New(mongoerr.Code(2942505), "The $sort pattern is empty when it should be a set of fields.")
	}
	return nil
}

func (s *sortArray) Eval(env *Env) (bson.Value, error) {
	v, err := s.input.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if v.IsNullish() {
		return bson.Null, nil
	}
	if v.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(2942504),
			"The input argument to $sortArray must be an array, but was of type: %s", v.Type)
	}
	mark := env.mark()
	env.pushElements(v)
	slices.SortStableFunc(env.since(mark), func(a, b bson.Value) int { return s.compare(env, a, b) })
	return env.takeArray(mark)
}

func (s *sortArray) compare(env *Env, a, b bson.Value) int {
	if s.whole != 0 {
		return s.whole * env.compare(a, b)
	}
	for _, f := range s.by {
		if c := env.compare(sortElement(a, f.parts), sortElement(b, f.parts)); c != 0 {
			if f.desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// sortElement is what an element is sorted by: the value at the path, where an
// array is an object with the names "0", "1" …, or null.
func sortElement(v bson.Value, parts []string) bson.Value {
	for _, name := range parts {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			return bson.Null
		}
		v = v.Doc().Lookup(name)
	}
	if v.IsMissing() {
		return bson.Null
	}
	return v
}

func (s *sortArray) walk(f func(*Expr)) { f(&s.input) }

func (s *sortArray) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$sortArray").Value("input", s.input.serialize()).Value("sortBy", s.spec)
	return bson.Document(b.Close().Finish())
}
