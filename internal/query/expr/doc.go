// Package expr is the language of aggregation expressions ("$a.b", {$add: [1, "$x"]},
// {$let: …}) and of the accumulators of $group, evaluated on document bytes. It is
// pure: it knows no collections, and a parsed expression may be evaluated by many
// goroutines, each with an Env of its own.
//
// Start at parse.go: Parse turns a value into a tree of Expr, looking operators up by
// name in a registry that each operator family's file fills; call.go has the node types
// most operators are made of. Evaluation takes an Env (env.go): the current document,
// the variables by slot, and an arena from which results are cut, so that evaluating
// allocates little. path.go has field paths. Conversions start at convert.go; dates at
// calendar.go (days and fields), timezone.go and date_parse.go (parsing). Elementary
// functions are computed in twofold doubles (doubledouble.go) or big floats
// (bigfloat.go), so that results are the nearest ones. Accumulators start at
// accumulator.go.
//
// A Missing value (the zero bson.Value) is the result of an absent field. A result
// shares bytes with the document, the expression or the Env's arena and stays valid for
// as long as it is referenced; clone small results that are kept for long, so that they
// do not pin whole documents.
package expr
