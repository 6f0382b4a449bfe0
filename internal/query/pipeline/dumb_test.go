package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// The dumb twin evaluates a pipeline stage by stage, on lists, in the most
// obvious way: no stage moves, none joins another, nothing streams.

// collections are documents by the name of their collection.
type collections map[string][]bson.Doc

func (c collections) dumb(docs []bson.Doc, list []bson.Value, vars []string, values []bson.Value) ([]bson.Doc, error) {
	for _, stage := range list {
		name, arg := stage.Doc().First()
		var err error
		if docs, err = c.stage(docs, name, arg, vars, values); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

func (c collections) stage(docs []bson.Doc, name string, arg bson.Value, vars []string, values []bson.Value) ([]bson.Doc, error) {
	opts := &expr.Options{Vars: vars}
	env := expr.NewEnv(1, values...)
	switch name {
	case "$match":
		return dumbMatch(docs, arg.Doc(), opts, env)
	case "$project", "$addFields", "$set", "$unset", "$replaceWith":
		p, err := project.ParseStage(name, arg, &project.Options{Expr: opts})
		if err != nil {
			return nil, err
		}
		return each(docs, func(d bson.Doc) ([]bson.Doc, error) { out, err := p.Apply(env, d); return []bson.Doc{out}, err })
	case "$skip":
		n, _ := bson.ExactInt64(arg)
		return docs[min(int(n), len(docs)):], nil
	case "$limit":
		n, _ := bson.ExactInt64(arg)
		return docs[:min(int(n), len(docs))], nil
	case "$sort":
		return dumbSort(docs, arg.Doc()), nil
	case "$count":
		if len(docs) == 0 {
			return nil, nil
		}
		return []bson.Doc{new(bson.Builder).Int(arg.Str(), int64(len(docs))).Finish()}, nil
	case "$unwind":
		return each(docs, func(d bson.Doc) ([]bson.Doc, error) { return dumbUnwind(d, arg), nil })
	case "$group":
		return dumbGroup(docs, arg.Doc(), opts, env)
	case "$unionWith":
		other, err := c.dumb(c[arg.Doc().Lookup("coll").Str()], arg.Doc().Lookup("pipeline").Doc().Slice(), vars, values)
		return append(slices.Clone(docs), other...), err
	case "$lookup":
		return each(docs, func(d bson.Doc) ([]bson.Doc, error) { return c.dumbLookup(d, arg.Doc(), opts, env) })
	case "$facet":
		var b bson.Builder
		for it := arg.Doc().Iter(); it.Next(); {
			out, err := c.dumb(docs, it.Value.Doc().Slice(), vars, values)
			if err != nil {
				return nil, err
			}
			b.Array(it.Key, arrayOf(out))
		}
		return []bson.Doc{b.Finish()}, nil
	}
	return nil, fmt.Errorf("the dumb twin has no %s", name)
}

func arrayOf(docs []bson.Doc) bson.Doc {
	var b bson.Builder
	for i, d := range docs {
		b.Doc(bson.Index(i), d)
	}
	return b.Finish()
}

func each(docs []bson.Doc, f func(bson.Doc) ([]bson.Doc, error)) ([]bson.Doc, error) {
	var out []bson.Doc
	for _, d := range docs {
		more, err := f(d)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func dumbMatch(docs []bson.Doc, filter bson.Doc, opts *expr.Options, env *expr.Env) ([]bson.Doc, error) {
	f, err := match.Parse(filter, &match.Options{Expr: opts})
	if err != nil {
		return nil, err
	}
	return each(docs, func(d bson.Doc) ([]bson.Doc, error) {
		ok, err := f.MatchEnv(d, &match.Env{Expr: env})
		if err != nil || !ok {
			return nil, err
		}
		return []bson.Doc{d}, nil
	})
}

// dumbSort orders by top-level fields, of arrays by their least element
// ascending and by their greatest one descending.
func dumbSort(docs []bson.Doc, spec bson.Doc) []bson.Doc {
	out := slices.Clone(docs)
	slices.SortStableFunc(out, func(a, b bson.Doc) int {
		for it := spec.Iter(); it.Next(); {
			desc := it.Value.Int32() < 0
			c := bson.Compare(sortValue(a, it.Key, desc), sortValue(b, it.Key, desc))
			if desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

func sortValue(d bson.Doc, name string, greatest bool) bson.Value {
	v := d.Lookup(name)
	if v.IsMissing() {
		return bson.Null
	}
	if v.Type != bson.TypeArray {
		return v
	}
	best := bson.Undefined
	for i, e := range v.Doc().Slice() {
		if c := bson.Compare(e, best); i == 0 || c < 0 && !greatest || c > 0 && greatest {
			best = e
		}
	}
	return best
}

func dumbUnwind(d bson.Doc, arg bson.Value) []bson.Doc {
	path, keep, index := arg, false, ""
	if arg.Type == bson.TypeDocument {
		path = arg.Doc().Lookup("path")
		keep = arg.Doc().Lookup("preserveNullAndEmptyArrays").Truthy()
		index = str(arg.Doc().Lookup("includeArrayIndex"))
	}
	name := path.Str()[1:]
	emit := func(v, i bson.Value) bson.Doc {
		var b bson.Builder
		for it := d.Iter(); it.Next(); {
			switch {
			case it.Key == name:
				b.Value(name, v)
			case it.Key != index:
				b.Value(it.Key, it.Value)
			default:
				b.Value(index, i)
			}
		}
		if index != "" && !d.Has(index) {
			b.Value(index, i)
		}
		return b.Finish()
	}
	v := d.Lookup(name)
	switch {
	case v.Type == bson.TypeArray && v.Doc().Len() > 0:
		var out []bson.Doc
		for i, e := range v.Doc().Slice() {
			out = append(out, emit(e, bson.Int64(int64(i))))
		}
		return out
	case v.Type == bson.TypeArray && keep:
		return []bson.Doc{emit(bson.Value{}, bson.Null)}
	case v.Type == bson.TypeArray, v.IsNullish() && !keep:
		return nil
	}
	return []bson.Doc{emit(v, bson.Null)}
}

func dumbGroup(docs []bson.Doc, spec bson.Doc, opts *expr.Options, env *expr.Env) ([]bson.Doc, error) {
	id, err := expr.Parse(spec.Lookup("_id"), opts)
	if err != nil {
		return nil, err
	}
	var ids []bson.Value
	groups := map[int][]bson.Doc{}
	for _, d := range docs {
		v, err := id.Eval(env.WithRoot(d))
		if err != nil {
			return nil, err
		}
		if v.IsMissing() {
			v = bson.Null
		}
		if of := spec.Lookup("_id"); of.Type == bson.TypeDocument && of.Doc().Len() == 1 && v.Type == bson.TypeDocument && v.Doc().IsEmpty() {
			name, _ := of.Doc().First()
			v = bson.Document(new(bson.Builder).Null(name).Finish()) // a single absent value is null
		}
		at := slices.IndexFunc(ids, func(known bson.Value) bool { return bson.Equal(known, v) })
		if at < 0 {
			at, ids = len(ids), append(ids, v)
		}
		groups[at] = append(groups[at], d)
	}
	var out []bson.Doc
	for i, v := range ids {
		b := new(bson.Builder).Value("_id", v)
		for it := spec.Iter(); it.Next(); {
			if it.Key == "_id" {
				continue
			}
			op, arg := it.Value.Doc().First()
			s, err := expr.ParseAccumulator(op, arg, opts)
			if err != nil {
				return nil, err
			}
			acc, err := s.New(env, v)
			if err != nil {
				return nil, err
			}
			for _, d := range groups[i] {
				if err := acc.Add(env.WithRoot(d)); err != nil {
					return nil, err
				}
			}
			r, err := acc.Result()
			if err != nil {
				return nil, err
			}
			if r.IsMissing() {
				r = bson.Null
			}
			b.Value(it.Key, r)
		}
		out = append(out, b.Finish())
	}
	return out, nil
}

func (c collections) dumbLookup(d, spec bson.Doc, opts *expr.Options, env *expr.Env) ([]bson.Doc, error) {
	found := c[spec.Lookup("from").Str()]
	if local := str(spec.Lookup("localField")); local != "" {
		v := d.Lookup(local)
		wanted := []bson.Value{v}
		if v.Type == bson.TypeArray {
			wanted = v.Doc().Slice()
		}
		if v.IsMissing() || len(wanted) == 0 {
			wanted = []bson.Value{bson.Null}
		}
		filter := new(bson.Builder).OpenDoc(spec.Lookup("foreignField").Str()).Value("$in", bson.Array(wanted...)).Close().Finish()
		var err error
		if found, err = dumbMatch(found, filter, opts, env); err != nil {
			return nil, err
		}
	}
	vars, values := slices.Clone(opts.Vars), []bson.Value{}
	for i := range opts.Vars {
		values = append(values, env.Var(i))
	}
	if let := spec.Lookup("let"); !let.IsMissing() {
		for it := let.Doc().Iter(); it.Next(); {
			e, err := expr.Parse(it.Value, opts)
			if err != nil {
				return nil, err
			}
			v, err := e.Eval(env.WithRoot(d))
			if err != nil {
				return nil, err
			}
			vars, values = append(vars, it.Key), append(values, v)
		}
	}
	if p := spec.Lookup("pipeline"); !p.IsMissing() {
		var err error
		if found, err = c.dumb(found, p.Doc().Slice(), vars, values); err != nil {
			return nil, err
		}
	}
	as := spec.Lookup("as").Str()
	if strings.Contains(as, ".") {
		return nil, fmt.Errorf("the dumb twin joins to top-level fields only")
	}
	var b bson.Builder
	for it := d.Iter(); it.Next(); {
		if it.Key == as {
			b.Array(as, arrayOf(found))
		} else {
			b.Value(it.Key, it.Value)
		}
	}
	if !d.Has(as) {
		b.Array(as, arrayOf(found))
	}
	return []bson.Doc{b.Finish()}, nil
}

// The World of the clever side: Read answers the head of a pipeline as a query
// would.

func (c collections) Source(context.Context, string, bson.Value) (Iterator, error) {
	return nil, fmt.Errorf("there is no server")
}

func (c collections) Archived(context.Context, *Archive, *Run) (Iterator, error) {
	return nil, fmt.Errorf("there is no server")
}

func (c collections) Merge(context.Context, *Merge, *Run) (Target, error) {
	return nil, fmt.Errorf("there is no server")
}

func (c collections) Out(context.Context, *Out, *Run) (Target, error) {
	return nil, fmt.Errorf("there is no server")
}

func (c collections) Read(_ context.Context, ns Namespace, p *Pipeline, r *Run) (Iterator, error) {
	h, rest := p.Split()
	docs := c[ns.Coll]
	if h.Filter != nil {
		var err error
		docs, err = each(docs, func(d bson.Doc) ([]bson.Doc, error) {
			ok, err := h.Filter.MatchEnv(d, &match.Env{Expr: r.Env})
			if err != nil || !ok {
				return nil, err
			}
			return []bson.Doc{d}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !h.Sort.IsEmpty() {
		docs = dumbSort(docs, h.Sort.Spec())
	}
	docs = docs[min(int(h.Skip), len(docs)):]
	if h.Limit > 0 {
		docs = docs[:min(int(h.Limit), len(docs))]
	}
	return rest.Open(&List{Docs: docs}, r)
}
