package nosql

import (
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Query is a parsed query with its parameters, for any number of runs, also at
// once.
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
	p := &parser{tokens: ts, computed: computed, items: map[int]bool{}}
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

// isDocumentPath says whether e is a property, or what is in it, of an alias.
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

// Run is one run of a query: it takes the items of the container in, one after
// the other, and hands rows out.
type Run struct {
	q   *Query
	env env
	r   runner
}

// Start begins a run; emit is called with each row, which shares memory with
// the items that Add was given, and returns false when it wants no more.
func (q *Query) Start(now time.Time, emit func(row bson.Value) bool) *Run {
	run := &Run{q: q, env: env{slots: make([]bson.Value, q.slots), params: q.params, now: now}}
	run.r = runner{s: q.s, env: &run.env, emit: emit}
	return run
}

// NeedsItems says whether the query reads the container at all: SELECT without
// FROM does not.
func (q *Query) NeedsItems() bool { return q.s.from != nil }

// Add takes the next item; false says that the run needs no more of them.
func (run *Run) Add(item bson.Doc) (more bool, err error) {
	run.env.item = item
	more = true
	err = run.q.s.bind(&run.env, func() (bool, error) {
		var err error
		more, err = run.r.add()
		return more, err
	})
	return more, err
}

// Finish ends the run: what had to wait for the last item comes now.
func (run *Run) Finish() error {
	if !run.q.NeedsItems() {
		if _, err := run.r.add(); err != nil {
			return err
		}
	}
	_, err := run.r.finish()
	return err
}

// Shape is what a gateway asks of a query before it serves it across
// partitions.
type Shape struct {
	Distinct, Top, OrderBy, OffsetLimit, GroupBy bool
	Value                                        bool // SELECT VALUE
	Aggregates                                   []string
	OrderByPaths                                 []string // a property path a key, "" for other expressions
	OrderByDescending                            []bool
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
	return sh
}
