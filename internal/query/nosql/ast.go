package nosql

import "github.com/mayflydb/mayfly/internal/bson"

// expression is a scalar expression. eval answers Missing for undefined.
type expression interface {
	eval(env *env) (bson.Value, error)
}

// selection is one SELECT with its clauses.
type selection struct {
	distinct bool
	top      expression // or nil
	star     token      // the *, if it is one
	isStar   bool
	value    expression // of SELECT VALUE, or nil
	fields   []outputField
	from     *collection // nil if there is no FROM
	joins    []*collection
	where    expression // or nil
	groupBy  []expression
	orderBy  []sortKey
	offset   expression // or nil
	limit    expression // or nil

	aggregates []*aggregate // in the order in which they stand
	groups     bool         // GROUP BY, or aggregates without it
	inner      *scope       // of the aliases of FROM
}

// outputField is one field of a SELECT list.
type outputField struct {
	name string
	expr expression
	at   token
}

type sortKey struct {
	expr       expression
	descending bool
	at         token
}

// collection is one source of FROM or JOIN: what it iterates over, and under
// which alias.
type collection struct {
	alias string
	slot  int
	// root says that it is the container; path leads from it, or from the alias
	// in base, to what is meant. A subquery has neither.
	root     bool
	base     expression // or nil
	path     []expression
	subquery *selection // or nil
	iterate  bool       // alias IN …
	at       token
}
