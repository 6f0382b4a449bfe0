package nosql

import (
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
)

// Query is a parsed query with its parameters. It may have any number of runs, also at
// the same time.
type Query struct {
	s      *selection
	slots  int
	params map[string]bson.Value
}

// Parse reads a query over items that have computed properties, nil for none.
// params are by name, without the @. Errors are *Error.
func Parse(query string, params map[string]bson.Value, computed Computed) (*Query, error) {
	if strings.TrimSpace(query) == "" {
		return nil, &Error{Code: codeEmpty, Message: "Syntax error, unexpected end-of-file encountered."}
	}
	if len(query) > MaxText {
		return nil, &Error{Code: codeLimits, Message: "The query text exceeded the maximum limit of " + itoa(MaxText) + " bytes."}
	}
	ts, err := tokens(query)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: ts, computed: computed, container: true, items: map[int]bool{}, logical: map[string]int{}}
	s, err := p.selection()
	if err != nil {
		return nil, err
	}
	if p.peek().kind != tokEnd {
		return nil, p.unexpected()
	}
	for _, k := range s.orderBy {
		if !isDocumentPath(k.expr) {
			return nil, errorAt(codeOrderByPath, k.at, "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
	}
	return &Query{s: s, slots: p.slots, params: params}, nil
}

// With is the query with other parameters, by name without the @.
func (q *Query) With(params map[string]bson.Value) *Query {
	n := *q
	n.params = params
	return &n
}

// isDocumentPath reports whether e is a property, or what is in it, of an alias.
func isDocumentPath(e expression) bool {
	if c, ok := e.(*computed); ok {
		e = c.of
	}
	p, ok := e.(*property)
	if !ok {
		return false
	}
	if _, constantKey := p.key.(*constant); !constantKey {
		return false
	}
	if _, top := p.of.(*alias); top {
		return true
	}
	return isDocumentPath(p.of)
}

// Run is one run of a query: it is given the items of the container one by one, and
// delivers rows.
type Run struct {
	q     *Query
	env   env
	meter meter
	// chain is the outermost SELECT, the one that it selects from where that is a
	// subquery, and so on: the last takes the items, each hands its rows to the
	// one before.
	chain []*runner
	err   error // of one that took a row
}

// Hold makes the run take memory from h for what it keeps for ORDER BY, GROUP BY and
// DISTINCT, in all its SELECTs, and for the values that it makes.
func (run *Run) Hold(h memory.Holding) { run.meter.memory = &h }

// Until makes the run call interrupted from time to time, and end with its error, if it
// returns one.
func (run *Run) Until(interrupted func() error) { run.meter.interrupted = interrupted }

// Within bounds the run to about so many steps: elements of its sources, and work of its
// functions, of some microseconds each. One more is an error.
func (run *Run) Within(steps uint) { run.meter.most = steps }

// Start begins a run; emit is called with each row, which shares memory with
// the items that Add was given, and returns false to stop the run.
func (q *Query) Start(now time.Time, emit func(row bson.Value) bool) *Run {
	run := &Run{q: q}
	run.env = env{slots: make([]bson.Value, q.slots), params: q.params, now: now, meter: &run.meter}
	run.chain = []*runner{{s: q.s, env: &run.env, emit: emit}}
	for s := q.s; s.from != nil && s.from.subquery != nil; s = s.from.subquery {
		outer := run.chain[len(run.chain)-1]
		run.chain = append(run.chain, &runner{s: s.from.subquery, env: &run.env, emit: func(row bson.Value) bool { return run.pass(outer, row) }})
	}
	return run
}

// pass hands a row of a subquery to the SELECT around it, and reports whether that
// wants more.
func (run *Run) pass(outer *runner, row bson.Value) bool {
	c := outer.s.from
	more, err := c.each(row, func(v bson.Value) (bool, error) {
		run.env.slots[c.slot] = v
		more := true
		_, err := outer.s.bindFrom(&run.env, outer.s.joins, func() (bool, error) {
			var err error
			more, err = outer.add()
			return more, err
		})
		return more, err
	})
	if err != nil {
		run.err = err
	}
	return more && err == nil
}

// source is the SELECT that takes the items.
func (run *Run) source() *runner { return run.chain[len(run.chain)-1] }

// NeedsItems reports whether the query reads the container at all: SELECT without
// FROM does not.
func (q *Query) NeedsItems() bool {
	s := q.s
	for s.from != nil && s.from.subquery != nil {
		s = s.from.subquery
	}
	return s.from != nil
}

// Add takes the next item; false says that the run needs no more of them.
func (run *Run) Add(item bson.Doc) (more bool, err error) {
	run.env.item, run.meter.made = item, 0
	more = true
	r := run.source()
	if r.s.plain() {
		run.env.slots[r.s.from.slot] = bson.Document(item)
		more, err = r.add()
		if err == nil {
			err = run.err
		}
		return more, err
	}
	err = r.s.bind(&run.env, func() (bool, error) {
		var err error
		more, err = r.add()
		return more, err
	})
	if err == nil {
		err = run.err
	}
	return more, err
}

// plain reports whether the SELECT is from the container and nothing else.
func (s *selection) plain() bool {
	f := s.from
	return f != nil && len(s.joins) == 0 && f.root && len(f.path) == 0 && !f.iterate && f.subquery == nil
}

// Finish ends the run: the rows that had to wait for the last item are delivered.
func (run *Run) Finish() error {
	run.meter.made = 0
	if !run.q.NeedsItems() {
		if _, err := run.source().add(); err != nil {
			return err
		}
	}
	for i := len(run.chain) - 1; i >= 0; i-- {
		if _, err := run.chain[i].finish(); err != nil {
			return err
		}
		if run.err != nil {
			return run.err
		}
	}
	return nil
}

// Shape is what a gateway needs to know of a query before it serves it across
// partitions.
type Shape struct {
	Distinct, Top, OrderBy, OffsetLimit, GroupBy bool
	Value                                        bool // SELECT VALUE
	Aggregates                                   []string
	OrderByPaths                                 []string // a property path a key, "" for other expressions
	OrderByDescending                            []bool
	// Staged says that the query selects from a subquery whose rows are known only once
	// it has seen all items.
	Staged bool
}

// Shape describes the outermost SELECT.
func (q *Query) Shape() Shape {
	s := q.s
	sh := Shape{
		Distinct: s.distinct, Top: s.top != nil, OrderBy: len(s.orderBy) > 0, OffsetLimit: s.offset != nil,
		GroupBy: len(s.groupBy) > 0, Value: s.value != nil,
	}
	for _, a := range s.aggregates {
		sh.Aggregates = append(sh.Aggregates, a.name)
	}
	for _, k := range s.orderBy {
		path, _ := s.path(k.expr)
		sh.OrderByPaths = append(sh.OrderByPaths, path)
		sh.OrderByDescending = append(sh.OrderByDescending, k.descending)
	}
	for in := s; in.from != nil && in.from.subquery != nil; {
		in = in.from.subquery
		sh.Staged = sh.Staged || in.distinct || in.top != nil || len(in.orderBy) > 0 || in.offset != nil || in.groups
	}
	return sh
}
