package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

const (
	// maxConsidered bounds the values in a failure that an operator examined.
	maxConsidered = 10
	// maxFailureBytes bounds the explanation of one failure.
	maxFailureBytes = 12 << 20
	// maxFailureDepth leaves room for the reply around it below the limit on
	// nested documents.
	maxFailureDepth = 190
)

// ExplainFailure explains why the filter of a collection's validator rejects doc: the
// errInfo of the error, {failingDocumentId, details}.
func (f *Filter) ExplainFailure(doc bson.Doc, env *Env) (bson.Doc, error) {
	for _, brief := range []bool{false, true} {
		x := &failure{p: newParser(&f.opts), doc: doc, env: env, brief: brief}
		details, err := x.document(f.filter, false)
		if err != nil {
			return nil, err
		}
		var b bson.Builder
		b.Value("failingDocumentId", doc.Lookup("_id"))
		if bson.ExceedsDepth(details, maxFailureDepth) {
			return b.String("reason", "generated error was too deeply nested").Bool("truncated", true).Finish(), nil
		}
		if brief {
			b.Bool("truncated", true)
		}
		if info := b.Doc("details", details).Finish(); len(info) <= maxFailureBytes {
			return info, nil
		}
	}
	var b bson.Builder
	return b.Value("failingDocumentId", doc.Lookup("_id")).String("note", "detailed error was too large").Finish(), nil
}

// failure goes through the text of a filter, clause by clause, and says why
// each did not match; under a negation (inverted) why it did.
type failure struct {
	p     *parser
	doc   bson.Doc
	env   *Env
	brief bool // leave out what may be large
}

// clause is one predicate of a filter's text: an operator in the place of a
// field, or a path with one operator or value.
type clause struct {
	name string // the field, or the operator in its place
	op   string // the operator about the field; empty for a bare value
	v    bson.Value
	sub  bson.Doc // the conditions that hold op
}

// clauses lists the predicates of a filter or a branch of one.
func clauses(d bson.Doc) []clause {
	var list []clause
	for it := d.Iter(); it.Next(); {
		bare := it.Key != "" && it.Key[0] == '$' && !isDBRefField(it.Key)
		if bare && it.Key == "$comment" {
			continue
		}
		if bare || !isConditions(it.Value, false) {
			list = append(list, clause{name: it.Key, v: it.Value})
			continue
		}
		list = append(list, conditionClauses(it.Key, it.Value.Doc())...)
	}
	return list
}

func conditionClauses(path string, d bson.Doc) []clause {
	var list []clause
	for it := d.Iter(); it.Next(); {
		if it.Key != "$options" && it.Key != "$comment" {
			list = append(list, clause{path, it.Key, it.Value, d})
		}
	}
	return list
}

// document explains a filter or a branch: one clause by itself, several as an
// $and.
func (x *failure) document(d bson.Doc, inverted bool) (bson.Doc, error) {
	return x.conjunction(clauses(d), inverted)
}

func (x *failure) conjunction(list []clause, inverted bool) (bson.Doc, error) {
	if len(list) == 1 {
		return x.clause(list[0], inverted)
	}
	return x.list("$and", inverted, len(list), func(i int) (Node, error) {
		nodes, err := x.node(list[i])
		return &And{nodes}, err
	}, func(i int, inverted bool) (bson.Doc, error) {
		return x.clause(list[i], inverted)
	})
}

// list explains $and, $or and $nor: those of the n branches that are to blame.
func (x *failure) list(op string, inverted bool, n int, node func(i int) (Node, error),
	explain func(i int, inverted bool) (bson.Doc, error),
) (bson.Doc, error) {
	satisfied := inverted != (op == "$nor")
	var b bson.Builder
	b.String("operatorName", op)
	if satisfied {
		b.OpenArray("clausesSatisfied")
	} else {
		b.OpenArray("clausesNotSatisfied")
	}
	at := 0
	for i := range n {
		branch, err := node(i)
		if err != nil {
			return nil, err
		}
		ok, err := branch.match(subject{bson.Document(x.doc), document}, x.env)
		if err == nil && ok != satisfied {
			continue
		}
		details, err := explain(i, satisfied)
		if err != nil {
			return nil, err
		}
		b.OpenDoc(bson.Index(at)).Int32("index", int32(i)).Doc("details", details).Close()
		at++
	}
	return b.Close().Finish(), nil
}

// node compiles one clause.
func (x *failure) node(c clause) ([]Node, error) {
	if c.op == "" {
		return x.p.field(c.name, c.v, wholeFilter)
	}
	n, err := operators[c.op](x.p, argument{c.name, c.op, c.v, c.sub, wholeFilter})
	return []Node{n}, err
}

func (x *failure) clause(c clause, inverted bool) (bson.Doc, error) {
	switch {
	case c.op == "" && (c.name == "$and" || c.name == "$or" || c.name == "$nor"):
		branches := c.v.Doc().Slice()
		return x.list(c.name, inverted, len(branches), func(i int) (Node, error) {
			return x.p.document(branches[i].Doc(), sameDocument)
		}, func(i int, inverted bool) (bson.Doc, error) {
			return x.document(branches[i].Doc(), inverted)
		})
	case c.op == "" && c.name == "$jsonSchema":
		return x.schema(c, inverted)
	case c.op == "" && (c.name == "$expr" || c.name == "$sampleRate"):
		return x.expression(c, inverted)
	case c.op == "" && (c.name == "$alwaysTrue" || c.name == "$alwaysFalse"):
		return x.begin(c).String("reason", alwaysReason(c.name == "$alwaysTrue")).Finish(), nil
	case c.op == "$not":
		return x.negation(c, inverted)
	}
	return x.leaf(c, inverted)
}

func alwaysReason(matches bool) string {
	if matches {
		return "expression always evaluates to true"
	}
	return "expression always evaluates to false"
}

func (x *failure) negation(c clause, inverted bool) (bson.Doc, error) {
	list := []clause{{name: c.name, v: c.v}}
	if c.v.Type == bson.TypeDocument {
		list = conditionClauses(c.name, c.v.Doc())
	}
	details, err := x.conjunction(list, !inverted)
	if err != nil {
		return nil, err
	}
	return new(bson.Builder).String("operatorName", "$not").Doc("details", details).Finish(), nil
}

// begin writes the operator's name and its argument.
func (x *failure) begin(c clause) *bson.Builder {
	name := c.op
	if name == "" {
		name = c.name
		if name == "" || name[0] != '$' {
			name = map[bool]string{true: "$regex", false: "$eq"}[c.v.Type == bson.TypeRegex]
		}
	}
	b := new(bson.Builder).String("operatorName", name)
	if x.brief {
		return b
	}
	b.OpenDoc("specifiedAs")
	if c.op == "" {
		return b.Value(c.name, c.v).Close()
	}
	b.OpenDoc(c.name)
	for it := c.sub.Iter(); it.Next(); {
		if it.Key == c.op || it.Key == "$options" && c.op == "$regex" {
			b.Value(it.Key, it.Value)
		}
	}
	return b.Close().Close()
}

func (x *failure) schema(c clause, inverted bool) (bson.Doc, error) {
	n, err := parseJSONSchema(x.p, c.name, c.v, wholeFilter)
	if err != nil {
		return nil, err
	}
	root := n.(*JSONSchema).root
	if !inverted && root.types != nil && !root.types.Has(bson.TypeDocument) {
		return x.begin(c).String("reason", alwaysReason(false)).Finish(), nil
	}
	b := new(bson.Builder).String("operatorName", c.name)
	root.appendTexts(b)
	if inverted {
		return b.String("reason", "schema matched").Finish(), nil
	}
	if err := root.explain(b, "schemaRulesNotSatisfied", bson.Document(x.doc)); err != nil {
		return nil, err
	}
	return b.Finish(), nil
}

func (x *failure) expression(c clause, inverted bool) (bson.Doc, error) {
	b := x.begin(c)
	result := bson.Bool(inverted)
	if c.name == "$expr" {
		e, err := expr.Parse(c.v, x.p.opts.Expr)
		if err != nil {
			return nil, err
		}
		if result, err = e.Eval(x.env.expr().WithRoot(x.doc)); err != nil {
			cause := mongoerr.From(err)
			b.String("reason", "failed to evaluate aggregation expression").OpenDoc("details")
			b.Int32("code", int32(cause.Code)).String("codeName", cause.Code.String()).String("errmsg", cause.Message)
			return b.Close().Finish(), nil
		}
	}
	if inverted {
		b.String("reason", "expression did match")
	} else {
		b.String("reason", "expression did not match")
	}
	return b.Value("expressionResult", result).Finish(), nil
}
