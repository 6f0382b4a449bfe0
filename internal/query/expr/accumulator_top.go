package expr

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

func init() {
	for _, name := range []string{"$top", "$bottom", "$topN", "$bottomN"} {
		accumulators[name] = parseTop
	}
}

// parseTop parses $top and $bottom, {sortBy, output}, and $topN and $bottomN,
// which take n too.
func parseTop(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(5788001), "specification must be an object; found %s", text(arg))
	}
	many := name == "$topN" || name == "$bottomN"
	var n, output, sortBy bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		switch {
		case it.Key == "n" && many:
			n = it.Value
		case it.Key == "output":
			output = it.Value
		case it.Key == "sortBy":
			sortBy = it.Value
		default:
			return nil, mongoerr.New(mongoerr.Code(5788002), "Unknown argument to %s '%s'", name, it.Key)
		}
	}
	switch {
	case n.IsMissing() && many:
		return nil, mongoerr.New(mongoerr.Code(5788003), "Missing value for 'n'")
	case output.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(5788004), "Missing value for 'output'")
	case sortBy.IsMissing():
		return nil, mongoerr.New(mongoerr.Code(5788005), "Missing value for 'sortBy'")
	case sortBy.Type != bson.TypeDocument:
		return nil, mongoerr.New(mongoerr.Code(5788604),
			"expected 'sortBy' to already be an object in the arguments to %s", name)
	}
	pattern, err := sortkey.Parse(sortBy.Doc())
	if err != nil {
		return nil, err
	}
	s := &AccumulatorSpec{Name: name}
	if many {
		if s.init, err = p.operand(n); err != nil {
			return nil, err
		}
	}
	e, err := p.operand(output)
	if err != nil {
		return nil, err
	}
	s.exprs = append([]Expr{e}, patternPaths(pattern)...)
	s.print = func(s *AccumulatorSpec) bson.Value {
		var b bson.Builder
		if s.init != nil {
			b.Value("n", s.init.serialize())
		}
		return bson.Document(b.Value("output", s.exprs[0].serialize()).Value("sortBy", sortBy).Finish())
	}
	s.start = func(s *AccumulatorSpec, env *Env, init bson.Value) (Accumulator, error) {
		t := &topState{name: name, n: 1, bottom: name[1] == 'b', single: !many, output: s.exprs[0],
			keys: sortkey.NewGenerator(pattern, env.Collator, func(kind string) bson.Value {
				v, _ := (&meta{kind}).Eval(env)
				return v
			})}
		if many {
			if t.n, err = validN(env, init); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	return s, nil
}

// patternPaths are expressions for what a sort reads, for dependency analysis.
func patternPaths(pattern sortkey.Pattern) (paths []Expr) {
	for _, part := range pattern.Parts {
		if part.Meta != "" {
			paths = append(paths, &meta{part.Meta})
			continue
		}
		paths = append(paths, &fieldPath{slot: slotRoot, parts: strings.Split(part.Path, ".")})
	}
	return paths
}

// topState keeps the outputs of the n first or, for bottom, last documents in
// the order of the keys; equal keys keep their order. It is a heap with
// the document that is dropped next on top.
type topState struct {
	name           string
	n, seq, bytes  int
	bottom, single bool
	output         Expr
	keys           *sortkey.Generator
	key            []byte
	values         []topValue
}

type topValue struct {
	kept
	key []byte
}

// before orders the documents as the result does.
func (t *topState) before(a, b topValue) int {
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c
	}
	return a.seq - b.seq
}

// worse reports whether a is dropped before b.
func (t *topState) worse(a, b topValue) bool { return (t.before(a, b) > 0) != t.bottom }

func (t *topState) Add(env *Env) (err error) {
	if t.key, err = t.keys.Append(t.key[:0], env.root); err != nil {
		return err
	}
	return t.take(t.key, func() (bson.Value, error) { return t.output.Eval(env) })
}

// take keeps a document with a key, if it is among the n. It copies what it keeps.
func (t *topState) take(key []byte, output func() (bson.Value, error)) error {
	t.seq++
	v := topValue{kept{seq: t.seq}, key}
	full := len(t.values) == t.n
	if full && t.worse(v, t.values[0]) {
		return nil
	}
	made, err := output()
	if err != nil {
		return err
	}
	v.value, v.key = orNull(made).Clone(), bytes.Clone(key)
	t.bytes += t.size(v)
	if full {
		t.bytes -= t.size(t.values[0])
		t.values[0] = v
		heap.Fix(t, 0)
	} else {
		heap.Push(t, v)
	}
	return overBudget(t.name, t.bytes)
}

func (t *topState) size(v topValue) int { return len(v.key) + len(v.value.Data) + keptOverhead }

// Len, Less, Swap, Push and Pop are heap.Interface.
func (t *topState) Len() int           { return len(t.values) }
func (t *topState) Less(i, j int) bool { return t.worse(t.values[i], t.values[j]) }
func (t *topState) Swap(i, j int)      { t.values[i], t.values[j] = t.values[j], t.values[i] }
func (t *topState) Push(v any)         { t.values = append(t.values, v.(topValue)) }

func (t *topState) Pop() any {
	v := t.values[len(t.values)-1]
	t.values = t.values[:len(t.values)-1]
	return v
}

func (t *topState) Result() (bson.Value, error) {
	if t.single {
		if len(t.values) == 0 {
			return bson.Null, nil
		}
		return t.values[0].value, nil
	}
	sorted := slices.SortedFunc(slices.Values(t.values), t.before)
	vs := make([]bson.Value, len(sorted))
	for i, v := range sorted {
		vs[i] = v.value
	}
	return new(Env).array(vs)
}

func (t *topState) Size() int { return 128 + t.bytes }

// Save appends the keys and outputs in the order in which they came.
func (t *topState) Save(b []byte) ([]byte, error) {
	arrived := slices.SortedFunc(slices.Values(t.values), func(x, y topValue) int { return x.seq - y.seq })
	for _, v := range arrived {
		b = binary.AppendUvarint(b, uint64(len(v.key)))
		b = saveValue(append(b, v.key...), v.value)
	}
	return b, nil
}

// Load adds them.
func (t *topState) Load(_ *Env, b []byte) error {
	for in := saved(b); len(in) > 0; {
		n := in.int()
		key := in[:n:n]
		in = in[n:]
		value := in.value()
		if err := t.take(key, func() (bson.Value, error) { return value, nil }); err != nil {
			return err
		}
	}
	return nil
}
