package nosql

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// rows runs a subquery over the aliases around it, and calls emit for each
// row until that returns false. Rows share memory with the items.
func (s *selection) rows(outer *env, emit func(bson.Value) bool) error {
	r := &runner{s: s, env: outer, emit: emit}
	err := s.bind(outer, func() (bool, error) { return r.add() })
	if err != nil {
		return err
	}
	_, err = r.finish()
	outer.kept -= r.memory
	return err
}

// bind calls f for each combination of the sources' elements, with the aliases
// set, until f returns false.
func (s *selection) bind(env *env, f func() (bool, error)) error {
	if s.from == nil {
		_, err := f()
		return err
	}
	_, err := s.bindFrom(env, append([]*collection{s.from}, s.joins...), f)
	return err
}

func (s *selection) bindFrom(env *env, sources []*collection, f func() (bool, error)) (bool, error) {
	if len(sources) == 0 {
		return f()
	}
	c := sources[0]
	more := true
	err := c.elements(env, func(v bson.Value) (bool, error) {
		env.slots[c.slot] = v
		err := env.work(1)
		if err != nil {
			return false, err
		}
		more, err = s.bindFrom(env, sources[1:], f)
		return more, err
	})
	return more, err
}

// elements calls f for what a source ranges over: the elements of an array
// with IN, else the one value; nothing where it is undefined.
func (c *collection) elements(env *env, f func(bson.Value) (bool, error)) error {
	if c.subquery != nil {
		return c.subqueryElements(env, f)
	}
	v := bson.Document(env.item)
	if !c.root {
		var err error
		if v, err = c.base.eval(env); err != nil {
			return err
		}
	}
	for _, k := range c.path {
		key, err := k.eval(env)
		if err != nil {
			return err
		}
		v = child(v, key)
	}
	_, err := c.each(v, f)
	return err
}

func (c *collection) each(v bson.Value, f func(bson.Value) (bool, error)) (bool, error) {
	if v.IsMissing() {
		return true, nil
	}
	if !c.iterate {
		return f(v)
	}
	if v.Type != bson.TypeArray {
		return true, nil
	}
	for e := range v.Doc().Values() {
		if more, err := f(e); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

func (c *collection) subqueryElements(env *env, f func(bson.Value) (bool, error)) error {
	var inner error
	err := c.subquery.rows(env, func(v bson.Value) bool {
		var more bool
		more, inner = c.each(v, f)
		return more && inner == nil
	})
	if inner != nil {
		return inner
	}
	return err
}

// runner takes the rows of one selection through its clauses.
type runner struct {
	s    *selection
	env  *env
	emit func(bson.Value) bool

	groups map[string]*group
	order  []*group // as they came up
	sorted []sortedRow
	seen   map[string]bool // of DISTINCT
	memory int
	sortRun

	progress
	ready       bool // the numbers below are known
	skip, limit int64
	limited     bool
	full        bool
}

type group struct {
	slots  []bson.Value // of one row of the group, for what GROUP BY names
	totals []*total
}

type sortedRow struct {
	RowPlace
	row bson.Value
}

// add takes the row of the current aliases; false means that no more is needed.
func (r *runner) add() (bool, error) {
	if err := r.prepare(); err != nil || r.full {
		return false, err
	}
	made := r.env.made
	if r.s.where != nil {
		v, err := r.s.where.eval(r.env)
		if err != nil || !isTrue(v) {
			r.env.made = made
			return err == nil, err
		}
	}
	r.nextRow(r.env.number)
	switch {
	case r.inOrder:
		return r.addInOrder(made)
	case r.s.groups || len(r.s.orderBy) > 0:
		take := r.sort
		if r.s.groups {
			take = r.group
		}
		err := take()
		r.env.made = made
		return true, err
	}
	v, err := r.s.row(r.env)
	if err != nil {
		return false, err
	}
	return r.handOn(v, r.row, made)
}

// handOn is output of a row: what was made for it, made being the count before, counts
// until who takes it is done. What that one makes of it counts further.
func (r *runner) handOn(v bson.Value, at RowPlace, made int) (bool, error) {
	own := r.env.made - made
	more, err := r.output(v, at)
	r.env.made -= own
	return more, err
}

// prepare works out TOP, OFFSET and LIMIT, once.
func (r *runner) prepare() error {
	if r.ready {
		return nil
	}
	r.ready = true
	for _, b := range []struct {
		expr expression
		name string
		into *int64
	}{{r.s.offset, "OFFSET", &r.skip}, {r.s.limit, "LIMIT", &r.limit}, {r.s.top, "TOP", &r.limit}} {
		if b.expr == nil {
			continue
		}
		v, err := b.expr.eval(r.env)
		if err != nil {
			return err
		}
		n, whole := bson.ExactInt64(v)
		if !v.IsNumber() || !whole || n < 0 {
			return failed("The value of the %s clause must be a non-negative integer.", b.name)
		}
		if *b.into = n; b.name != "OFFSET" {
			r.limited = true
		}
	}
	if r.behind != nil {
		r.skip, r.limit = 0, max(0, r.limit-r.given)
	}
	r.full = r.limited && r.limit == 0
	return nil
}

func (r *runner) keep(bytes int) error {
	if r.memory += bytes; r.memory > maxMemory {
		return failed("The query keeps more than %d bytes in memory.", maxMemory)
	}
	return r.env.keeps(bytes)
}

func (r *runner) group() error {
	var key []byte
	for _, e := range r.s.groupBy {
		v, err := e.eval(r.env)
		if err != nil {
			return err
		}
		key = identity(append(key, ';'), v)
	}
	g := r.groups[string(key)]
	if g == nil {
		g = r.newGroup()
		if err := r.keep(len(key) + 64*len(g.totals)); err != nil {
			return err
		}
		g.slots = make([]bson.Value, len(r.env.slots))
		for i, v := range r.env.slots {
			g.slots[i] = v.Clone()
			if err := r.keep(len(v.Data)); err != nil {
				return err
			}
		}
		r.groups[string(key)] = g
	}
	for i, a := range r.s.aggregates {
		v, err := a.arg.eval(r.env)
		if err != nil {
			return err
		}
		if a.name == "MAKELIST" || a.name == "MAKESET" {
			if err := r.keep(g.totals[i].collect(v, a.name == "MAKESET")); err != nil {
				return err
			}
			continue
		}
		if err := r.keep(g.totals[i].add(v)); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) newGroup() *group {
	g := &group{totals: make([]*total, len(r.s.aggregates))}
	for i := range g.totals {
		g.totals[i] = new(total)
	}
	if r.groups == nil {
		r.groups = map[string]*group{}
	}
	r.order = append(r.order, g)
	return g
}

func (r *runner) sort() error {
	row := sortedRow{RowPlace: r.row}
	row.Keys = make([]bson.Value, len(r.s.orderBy))
	for i, k := range r.s.orderBy {
		v, err := k.expr.eval(r.env)
		if err != nil {
			return err
		}
		row.Keys[i] = v.Clone()
	}
	v, err := r.s.row(r.env)
	if err != nil {
		return err
	}
	row.row = v.Clone()
	r.sorted = append(r.sorted, row)
	return r.keep(len(v.Data) + room(row.Keys))
}

// output hands a row on, if it is not a duplicate, after what came before the
// run, and within OFFSET and LIMIT.
func (r *runner) output(v bson.Value, at RowPlace) (bool, error) {
	if v.IsMissing() {
		return true, nil
	}
	if r.s.distinct {
		id := string(identity(nil, v))
		if r.seen[id] {
			return true, nil
		}
		if r.seen == nil {
			r.seen = map[string]bool{}
		}
		r.seen[id] = true
		if err := r.keep(len(id) + 32); err != nil {
			return false, err
		}
	}
	if r.behind != nil && r.compare(at, *r.behind) <= 0 {
		return true, nil
	}
	if r.skip > 0 {
		r.skip--
		return true, nil
	}
	if r.limited {
		if r.limit--; r.limit == 0 {
			r.full = true
		}
	}
	r.here = at
	if !r.emit(v) {
		r.full = true
	}
	return !r.full, nil
}

// finish returns the rows that had to wait for the last one.
func (r *runner) finish() (bool, error) {
	if err := r.prepare(); err != nil || r.full {
		return false, err
	}
	if r.s.groups {
		return r.finishGroups()
	}
	if r.inOrder {
		return r.endSortRun()
	}
	r.sortRows()
	for _, row := range r.sorted {
		if more, err := r.output(row.row, row.RowPlace); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// sortRows puts the rows that are kept into the order of ORDER BY.
func (r *runner) sortRows() {
	slices.SortStableFunc(r.sorted, func(a, b sortedRow) int { return r.compareKeys(a.Keys, b.Keys) })
}

func (r *runner) finishGroups() (bool, error) {
	if len(r.s.groupBy) == 0 && len(r.order) == 0 {
		r.newGroup()
	}
	slots, totals := r.env.slots, r.env.totals
	defer func() { r.env.slots, r.env.totals = slots, totals }()
	for _, g := range r.order {
		r.env.totals = g.totals
		if g.slots != nil {
			r.env.slots = g.slots
		}
		made := r.env.made
		v, err := r.s.row(r.env)
		if err != nil {
			return false, err
		}
		if more, err := r.handOn(v, RowPlace{}, made); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// row makes the row of what the aliases are set to: Missing for SELECT VALUE
// of undefined.
func (s *selection) row(env *env) (bson.Value, error) {
	switch {
	case s.isStar:
		return env.slots[s.from.slot], nil
	case s.value != nil:
		return s.value.eval(env)
	}
	var b bson.Builder
	for _, f := range s.fields {
		v, err := f.expr.eval(env)
		if err == nil {
			err = env.makes(len(f.name) + len(v.Data))
		}
		if err != nil {
			return bson.Value{}, err
		}
		b.Value(f.name, v)
	}
	return bson.Document(b.Finish()), nil
}
